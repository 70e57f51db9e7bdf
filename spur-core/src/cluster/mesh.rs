//! Who is in the mesh. What becomes of a member's jobs is another matter: it is told by its node.

use super::{Cluster, Taken};
use crate::mesh::MeshEvent;
use crate::time::Millis;

impl Cluster {
    pub(super) fn on_mesh(&mut self, at: Millis, event: &MeshEvent) -> Taken {
        let followed = self.mesh.apply(at, event);
        followed.map_err(|refused| refused.kind())
    }
}
