//! Compiles the protocol without `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=spur");
    let sources =
        ["services", "client", "stream", "door"].map(|name| format!("spur/v1/{name}.proto"));
    let files = protox::compile(sources, ["."])?;
    tonic_prost_build::configure()
        .build_transport(false)
        .emit_rerun_if_changed(false)
        .compile_fds(files)?;
    Ok(())
}
