//! A connection's timer, which costs nothing while the deadline only moves away.
//!
//! Each request moves a connection's deadline a little further. Telling the runtime's timer wheel every time would cost
//! more than parsing the request, so the timer stays armed for the earlier time and is set again only when it fires early
//! or when the deadline comes nearer.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};

use tokio::time::Sleep;

/// When something is to end, if ever.
#[derive(Debug, Default)]
pub struct Deadline {
    at: Option<Instant>,
    armed_for: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
    /// Whom the timer wakes: the address that its waker stands for, which nobody else gets as long as the timer has it.
    wakes: usize,
}

impl Deadline {
    /// Sets or lifts the deadline.
    #[inline]
    pub fn set(&mut self, at: Option<Instant>) {
        self.at = at;
    }

    /// When it is.
    #[must_use]
    #[inline]
    pub fn at(&self) -> Option<Instant> {
        self.at
    }

    /// Like [`Deadline::poll`], for those who know what time it is: a timer that is armed for later and wakes who asks
    /// need not be asked.
    #[inline]
    pub fn poll_at(&mut self, now: Instant, context: &mut Context<'_>) -> Poll<()> {
        let armed = self.armed_for.zip(self.at).is_some_and(|(armed_for, at)| now < armed_for && armed_for <= at);
        if armed && self.wakes == context.waker().data().addr() { Poll::Pending } else { self.poll(context) }
    }

    /// Ready once the deadline has passed; otherwise the task is woken then.
    #[inline]
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(at) = self.at else { return Poll::Pending };
        self.wakes = context.waker().data().addr();
        loop {
            match (&mut self.sleep, self.armed_for) {
                (Some(sleep), Some(armed_for)) if armed_for <= at => {
                    if sleep.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                    if armed_for >= at || tokio::time::Instant::now() >= at.into() {
                        self.armed_for = None;
                        return Poll::Ready(());
                    }
                    sleep.as_mut().reset(at.into());
                    self.armed_for = Some(at);
                }
                (Some(sleep), _) => {
                    sleep.as_mut().reset(at.into());
                    self.armed_for = Some(at);
                }
                (None, _) => {
                    self.sleep = Some(Box::pin(tokio::time::sleep_until(at.into())));
                    self.armed_for = Some(at);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, time::Duration};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn fires_at_the_last_deadline_set() {
        let start = tokio::time::Instant::now();
        let mut deadline = Deadline::default();
        for seconds in [5, 9, 2, 7] {
            deadline.set(Some((start + Duration::from_secs(seconds)).into_std()));
            let pending = poll_fn(|context| Poll::Ready(deadline.poll(context).is_pending())).await;
            assert!(pending);
        }
        poll_fn(|context| deadline.poll(context)).await;
        assert!(start.elapsed() >= Duration::from_secs(7) && start.elapsed() < Duration::from_secs(8));
    }

    #[tokio::test(start_paused = true)]
    async fn wakes_whoever_asked_last() {
        let start = tokio::time::Instant::now();
        let mut deadline = Deadline::default();
        deadline.set(Some((start + Duration::from_secs(3)).into_std()));
        for _ in 0..2 {
            let first = poll_fn(|context| Poll::Ready(deadline.poll_at(start.into_std(), context).is_pending()));
            assert!(first.await);
        }
        let local = tokio::task::LocalSet::new();
        let other = local.run_until(async {
            let wait = async move {
                poll_fn(|context| deadline.poll_at(tokio::time::Instant::now().into_std(), context)).await;
            };
            tokio::task::spawn_local(wait).await
        });
        other.await.unwrap();
        assert!(start.elapsed() >= Duration::from_secs(3) && start.elapsed() < Duration::from_secs(4));
    }
}
