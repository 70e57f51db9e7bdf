//! Compiles the protocol without `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=spur");
    let files = protox::compile(["spur/v1/services.proto", "spur/v1/stream.proto"], ["."])?;
    tonic_prost_build::configure()
        .build_transport(false)
        .emit_rerun_if_changed(false)
        .compile_fds(files)?;
    Ok(())
}
