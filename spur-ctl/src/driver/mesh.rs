//! Who is in the mesh.

use super::Writer;
use super::ask::Answer;
use super::commands::refuse;
use super::turn::Turn;
use spur_core::api::{Caller, RefusalKind, Reply};
use spur_core::event::Event;
use spur_core::mesh::MeshAsk;

impl Writer {
    /// Meets a wish, and says what it was about. Who may not change anything learns of no tokens.
    pub(super) fn mesh(&mut self, turn: &mut Turn, caller: &Caller, ask: MeshAsk) -> Answer {
        let met = self.cluster.mesh.meets(turn.at, ask);
        let met = met.map_err(|refused| refuse(RefusalKind::Invalid, refused.to_string()))?;
        let Some((event, about)) = met else {
            let book = self.cluster.mesh.book(turn.at, caller.operator);
            return Ok(Reply::Mesh(Box::new(book)));
        };
        self.propose(turn, Event::Mesh(event))
            .map_err(|why| refuse(RefusalKind::Invalid, why))?;
        Ok(Reply::Mesh(Box::new(about)))
    }
}
