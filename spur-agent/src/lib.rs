//! The node agent spurd: discover, fence, launch, meter, stream, mesh.
