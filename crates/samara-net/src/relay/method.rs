//! What a service of gRPC is made of: generated code would say the same.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;
use tonic::body::Body;
use tonic::{Code, Status};
use tower_service::Service;

use super::identity::Fingerprint;
use super::server::Caller;

/// A future that answers a request.
pub(super) type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// A function as the service that tonic asks for.
pub(super) struct Method<F>(pub(super) F);

impl<F, Q, A, R> Service<Q> for Method<F>
where
    F: FnMut(Q) -> A,
    A: Future<Output = Result<R, Status>>,
{
    type Response = R;
    type Error = Status;
    type Future = A;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Q) -> A {
        (self.0)(request)
    }
}

/// The answer to a call of something that there is not.
pub(super) fn unimplemented() -> Answer {
    Box::pin(async { Ok(Status::new(Code::Unimplemented, "there is no such method").into_http()) })
}

/// Who calls, which TLS has proved.
pub(super) fn caller<T>(request: &tonic::Request<T>) -> Result<Fingerprint, Status> {
    let caller = request.extensions().get::<Caller>();
    caller.map(|caller| caller.fingerprint).ok_or_else(|| Status::unauthenticated("no certificate"))
}
