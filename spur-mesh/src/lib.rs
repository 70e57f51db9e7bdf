//! The data plane of the mesh: WireGuard tunnels between the members of a cluster, in user space.
//!
//! Pure layers decide: [`table`] who owns which address, [`path`] how a member is reached, [`packet`] what a packet is, [`filter`]
//! what may pass, [`relay`] how one tunnel passes through another, [`icmp`] how a sender learns what is too long. `peer` keeps the
//! tunnels of one member. `engine` moves packets between `device` (the tun interface) and `socket` (UDP), in batches, on threads of
//! its own. [`mesh`] is what the agent uses: members come and go by [`Mesh::set_peers`]; who they are is decided elsewhere.

mod device;
mod engine;
pub mod filter;
pub mod icmp;
pub mod key;
pub mod mesh;
pub mod packet;
pub mod path;
mod peer;
pub mod relay;
mod socket;
pub mod status;
pub mod table;

pub use filter::Filter;
pub use key::{PrivateKey, PublicKey};
pub use mesh::{Config, Mesh, MeshError, PeerConfig};
pub use path::Times;
pub use status::Status;
