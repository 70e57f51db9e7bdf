//! Commands over gRPC on a Unix socket.

use super::auth;
use crate::service::Service;
use spur_core::api;
use spur_proto::wire::controller_server::{Controller, ControllerServer};
use spur_proto::{client, wire};
use std::sync::Arc;
use tonic::transport::server::UdsConnectInfo;
use tonic::{Request, Response, Status};

/// The service that commands connect to.
#[derive(Clone, Debug)]
pub struct Front {
    service: Arc<Service>,
}

impl Front {
    /// A front of the service.
    pub fn new(service: Arc<Service>) -> Self {
        Self { service }
    }

    /// As a gRPC service.
    pub fn server(self) -> ControllerServer<Self> {
        ControllerServer::new(self)
            .max_decoding_message_size(client::REQUEST_MAX)
            .max_encoding_message_size(client::REPLY_MAX)
    }
}

#[tonic::async_trait]
impl Controller for Front {
    async fn call(
        &self,
        request: Request<wire::CallRequest>,
    ) -> Result<Response<wire::CallReply>, Status> {
        let peer = request
            .extensions()
            .get::<UdsConnectInfo>()
            .and_then(|info| info.peer_cred);
        let peer =
            peer.ok_or_else(|| Status::unauthenticated("the kernel does not say who calls"))?;
        let answer = match api::Request::try_from(request.into_inner()) {
            Ok(request) => {
                let caller = auth::caller(&self.service, peer).await;
                let answer = self.service.call(caller, request).await;
                answer.map_err(|stopped| Status::unavailable(stopped.to_string()))?
            }
            Err(bad) => Err(api::Refusal {
                kind: api::RefusalKind::Invalid,
                text: bad.to_string(),
            }),
        };
        Ok(Response::new(wire::CallReply::from(&answer)))
    }
}
