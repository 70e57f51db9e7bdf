//! Who is in the mesh, and what operators want of it.

use super::{BadMessage, Wire};
use crate::invitation::{Invitation, Meeting, Secret};
use spur_core::id::{MemberId, TokenId};
use spur_core::mesh::{
    Member, MeshAsk, MeshBook, MeshKey, MeshPrefix, NewToken, Newcomer, OldKey, Role, Token,
};
use std::net::SocketAddr;

choice!(
    Role = MemberRole {
        Controller,
        Node,
        Login
    }
);
record!(Newcomer = MeshNewcomer { req name, req key, rep endpoints });
record!(NewToken = MeshNewToken { req key, req role, opt name, req secs });
record!(Token = MeshToken { req id, req key, req role, opt name, req expires });
record!(OldKey = MeshOldKey { req key, req until });
record!(Member = MeshMember { req id, req name, req role, req key, opt previous, rep past, rep endpoints, req since });
record!(MeshBook = MeshBook { req prefix, rep members, rep tokens });
record!(Meeting = MeshMeeting { req id, req key, rep endpoints });
record!(Invitation = MeshInvitation { req key, req token, req prefix, rep controllers });
variants!(MeshAsk = MeshAsk in mesh_ask {
    unit List;
    rec Found { req prefix, req first };
    rec Withdraw { req token };
    rec Remove { req name };
    one Token;
});

impl Wire for MeshKey {
    type Pb = Vec<u8>;
    fn to_pb(&self) -> Vec<u8> {
        self.0.to_vec()
    }
    fn from_pb(pb: Vec<u8>) -> Result<Self, BadMessage> {
        let wrong = |pb: Vec<u8>| BadMessage::new(format!("a key has 32 bytes, not {}", pb.len()));
        pb.try_into().map(Self).map_err(wrong)
    }
}

impl Wire for Secret {
    type Pb = Vec<u8>;
    fn to_pb(&self) -> Vec<u8> {
        self.0.to_vec()
    }
    fn from_pb(pb: Vec<u8>) -> Result<Self, BadMessage> {
        MeshKey::from_pb(pb).map(|key| Self(key.0))
    }
}

impl Wire for MeshPrefix {
    type Pb = u64;
    fn to_pb(&self) -> u64 {
        self.0
    }
    fn from_pb(pb: u64) -> Result<Self, BadMessage> {
        Ok(Self(pb))
    }
}

impl Wire for MemberId {
    type Pb = u32;
    fn to_pb(&self) -> u32 {
        self.0
    }
    fn from_pb(pb: u32) -> Result<Self, BadMessage> {
        Ok(Self(pb))
    }
}

impl Wire for TokenId {
    type Pb = u32;
    fn to_pb(&self) -> u32 {
        self.0
    }
    fn from_pb(pb: u32) -> Result<Self, BadMessage> {
        Ok(Self(pb))
    }
}

impl Wire for SocketAddr {
    type Pb = String;
    fn to_pb(&self) -> String {
        self.to_string()
    }
    fn from_pb(pb: String) -> Result<Self, BadMessage> {
        let wrong = |_| BadMessage::new(format!("{pb:?} is no ADDRESS:PORT"));
        pb.parse().map_err(wrong)
    }
}
