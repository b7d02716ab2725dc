//! The host of `vcl_init` and `vcl_fini`.

use cache::index::Digest;
use http::Headers;
use vcl::{
    modules::{Function, Method},
    pattern::TooHard,
    program::{HeaderRef, ObjectIndex, StorageIndex},
    run::{Backend, Failure, Host, Value, Workspace},
    variables::{Message, StorageVariable, Variable},
};

use super::Exchange;
use crate::common::{Common, DirectorFacts};

/// The host of `vcl_init`: there is no message.
pub(crate) struct InitHost {
    pub(crate) common: Common,
}

impl Host for InitHost {
    fn header(&self, _: &HeaderRef) -> Option<&[u8]> {
        None
    }

    fn set_header(&mut self, _: &HeaderRef, _: &[u8]) -> Result<(), Failure> {
        Ok(())
    }

    fn unset_header(&mut self, _: &HeaderRef) {}

    fn variable<'w>(&self, variable: Variable, workspace: &'w Workspace) -> Result<Value<'w>, Failure> {
        Ok(self.common.variable(variable, workspace)?.unwrap_or(Value::Void))
    }

    fn set_variable(&mut self, _: Variable, _: Value<'_>) -> Result<(), Failure> {
        Ok(())
    }

    fn append_body(&mut self, _: Variable, _: Value<'_>) -> Result<(), Failure> {
        Ok(())
    }

    fn unset_variable(&mut self, _: Variable) {}

    fn storage(&self, storage: StorageIndex, variable: StorageVariable) -> Value<'static> {
        self.common.storage(storage, variable)
    }

    fn backend_name(&self, backend: Backend) -> Option<&str> {
        self.common.loaded.name_of(backend)
    }

    fn resolve(&mut self, backend: Option<Backend>) -> Option<Backend> {
        self.common.resolve(backend, &DirectorFacts { key: b"", url: b"", digest: None })
    }

    fn hash_data(&mut self, _: &[u8]) {}

    fn ban(&mut self, expression: &[u8]) -> Result<(), Failure> {
        self.common.ban(expression);
        Ok(())
    }

    fn log_acl(&mut self, _: &str, _: Option<&str>) {}

    fn log_hard_match(&mut self, _: &str, _: TooHard) {}

    fn call<'w>(
        &mut self,
        function: &'static Function,
        arguments: &[Option<Value<'w>>],
        workspace: &'w Workspace,
    ) -> Result<Value<'w>, Failure> {
        super::call(self, function, arguments, workspace)
    }

    fn method<'w>(
        &mut self,
        object: ObjectIndex,
        method: &'static Method,
        arguments: &[Option<Value<'w>>],
        workspace: &'w Workspace,
    ) -> Result<Value<'w>, Failure> {
        super::method(self, object, method, arguments, workspace)
    }

    fn make(&mut self, object: ObjectIndex, arguments: &[Option<Value<'_>>]) -> Result<(), Failure> {
        super::make(&self.common, object, arguments)
    }
}

impl Exchange for InitHost {
    fn common(&self) -> &Common {
        &self.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }

    fn headers(&self, _: Message) -> Option<&Headers> {
        None
    }

    fn headers_mut(&mut self, _: Message) -> Option<&mut Headers> {
        None
    }

    fn roll_back(&mut self, _: Message) -> Result<(), Failure> {
        Ok(())
    }

    fn digest(&self) -> Option<Digest> {
        None
    }

    fn url(&self) -> &[u8] {
        &[]
    }
}
