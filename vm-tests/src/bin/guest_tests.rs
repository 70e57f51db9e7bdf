//! Stand-in.
fn main() {
    println!("guest: nothing ok");
}
