//! Backups in S3 and what speaks like it (MinIO, Ceph, R2 and others), through the crate `object_store`.
//!
//! Keys, region and endpoint come from the environment, by the names that Amazon's own tools know: `AWS_ACCESS_KEY_ID`,
//! `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION`, `AWS_ENDPOINT_URL`; without keys, from the machine's role.

mod reading;

use std::io::{self, Read};

use futures_util::TryStreamExt as _;
use object_store::{
    ObjectStore, ObjectStoreExt as _, PutPayload, WriteMultipart,
    aws::{AmazonS3, AmazonS3Builder},
    path::Path,
};
use store::archive::Archive;
use tokio::runtime::{Builder, Runtime};

/// How a file is cut for its way: one that is not longer goes in one piece.
const PART_LEN: usize = 8 << 20;
/// Parts that are on their way together.
const PARTS_MAX: usize = 4;

/// A bucket, or a part of it.
#[derive(Debug)]
pub struct S3Archive {
    name: String,
    prefix: String,
    bucket: AmazonS3,
    runtime: Runtime,
}

impl S3Archive {
    /// Opens `s3://bucket` or `s3://bucket/prefix`. Nothing is asked of the server yet.
    ///
    /// # Errors
    ///
    /// The address is not such a one, or what the environment says cannot be used.
    pub fn open(url: &str) -> io::Result<Self> {
        let wrong =
            || io::Error::other(format!("'{url}' is no address of a bucket: s3://bucket or s3://bucket/prefix"));
        let rest = url.strip_prefix("s3://").ok_or_else(wrong)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(wrong());
        }
        // Who was first has chosen the same.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
        let endpoint = ["AWS_ENDPOINT_URL", "AWS_ENDPOINT"].iter().find_map(|name| std::env::var(name).ok());
        if endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")) {
            builder = builder.with_allow_http(true);
        }
        let bucket = builder.build().map_err(io_error)?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let prefix = prefix.trim_matches('/').to_owned();
        Ok(Self { name: url.trim_end_matches('/').to_owned(), prefix, bucket, runtime })
    }

    fn path(&self, name: &str) -> Path {
        if self.prefix.is_empty() { Path::from(name) } else { Path::from(format!("{}/{name}", self.prefix)) }
    }

    async fn put_parts(&self, path: &Path, first: Vec<u8>, content: &mut dyn Read) -> io::Result<()> {
        let upload = self.bucket.put_multipart(path).await.map_err(io_error)?;
        let mut parts = WriteMultipart::new_with_chunk_size(upload, PART_LEN);
        parts.write(&first);
        drop(first);
        loop {
            let piece = match read_piece(content) {
                Ok(piece) => piece,
                Err(error) => {
                    // What has come so far is of no use; if the server keeps it, its own rules remove it.
                    let _ = parts.abort().await;
                    return Err(error);
                }
            };
            if piece.is_empty() {
                break;
            }
            parts.wait_for_capacity(PARTS_MAX).await.map_err(io_error)?;
            parts.write(&piece);
        }
        parts.finish().await.map(drop).map_err(io_error)
    }
}

impl Archive for S3Archive {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn put(&self, name: &str, content: &mut dyn Read, _len: u64) -> io::Result<()> {
        let path = self.path(name);
        let first = read_piece(content)?;
        self.runtime.block_on(async {
            if first.len() < PART_LEN {
                return self.bucket.put(&path, PutPayload::from(first)).await.map(drop).map_err(io_error);
            }
            self.put_parts(&path, first, content).await
        })
    }

    fn get(&self, name: &str) -> io::Result<Box<dyn Read + '_>> {
        let path = self.path(name);
        let result = self.runtime.block_on(self.bucket.get(&path)).map_err(io_error)?;
        Ok(Box::new(reading::Reading::new(&self.runtime, result.into_stream())))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<(String, u64)>> {
        let prefix = self.path(folder);
        let listed: Vec<_> = self.runtime.block_on(self.bucket.list(Some(&prefix)).try_collect()).map_err(io_error)?;
        let found = listed.into_iter().filter_map(|object: object_store::ObjectMeta| {
            let name = object.location.filename()?.to_owned();
            Some((format!("{folder}/{name}"), object.size))
        });
        Ok(found.collect())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match self.runtime.block_on(self.bucket.delete(&self.path(name))).map_err(io_error) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// The next part of a file; less than [`PART_LEN`] at its end.
fn read_piece(content: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut piece = Vec::new();
    content.take(PART_LEN as u64).read_to_end(&mut piece)?;
    Ok(piece)
}

fn io_error(error: object_store::Error) -> io::Error {
    let kind = match &error {
        object_store::Error::NotFound { .. } => io::ErrorKind::NotFound,
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
            io::ErrorKind::PermissionDenied
        }
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}
