//! The two services on the agents' socket: orders and what jobs use, told apart by the path of the call.

use crate::links::Links;
use crate::usage::meter::Meters;
use spur_proto::wire::link_server::LinkServer;
use spur_proto::wire::meter_server::{MeterServer, SERVICE_NAME};
use std::convert::Infallible;
use std::task::{Context, Poll};
use tonic::codegen::{Body, BoxFuture, Service, StdError, http};

/// Both.
#[derive(Clone, Debug)]
pub struct Agents {
    links: LinkServer<Links>,
    meters: MeterServer<Meters>,
}

impl Agents {
    /// Serves both.
    pub fn new(links: Links, meters: Meters) -> Self {
        Self {
            links: links.server(),
            meters: meters.server(),
        }
    }
}

/// Whether a call is for the meters' service.
fn is_meter(path: &str) -> bool {
    let mut words = path.split('/').skip(1);
    words.next() == Some(SERVICE_NAME)
}

impl<B> Service<http::Request<B>> for Agents
where
    B: Body + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // Both are ready at any time: they are no queues.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        if is_meter(request.uri().path()) {
            self.meters.call(request)
        } else {
            self.links.call(request)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_apart_by_the_whole_name() {
        assert!(is_meter("/spur.v1.Meter/Report"));
        for other in [
            "/spur.v1.Link/Connect",
            "/spur.v1.Meters/Report",
            "/",
            "",
            "spur.v1.Meter/Report",
        ] {
            assert!(!is_meter(other), "{other}");
        }
    }
}
