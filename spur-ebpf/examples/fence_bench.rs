//! What the fence adds to an `open`, beside programs that do less: in one run, in interleaved batches.
//!
//! `cargo run --release -p spur-ebpf --example fence_bench [ROUNDS]` as root, on a machine with a cgroup v2 tree. Prints one JSON
//! object per line: nanoseconds per operation, device and program, then the ratios with their targets.

use libbpf_rs::libbpf_sys;
use spur_ebpf::{
    DeviceNumber, DeviceTable, Fence, GrantBit, MajorClass, Policy, Rule, mount_bpffs_if_needed,
};
use std::error::Error;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Operations per batch: long enough for the clock, short enough to be undisturbed now and then.
const BATCH: u32 = 250;
const ROUNDS_DEFAULT: usize = 1000;
/// Rules of the generated program; the last one matches.
const RULES: u32 = 12;
/// Devices with a driver whose open is cheap and that are not on the fence's base list.
const CANDIDATES: [&str; 4] = [
    "/dev/fuse",
    "/dev/autofs",
    "/dev/loop-control",
    "/dev/btrfs-control",
];

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = std::env::args()
        .nth(1)
        .map_or(Ok(ROUNDS_DEFAULT), |word| word.parse())?;
    let place = Place::new()?;
    let device = device()?;
    let null = CString::new("/dev/null")?;
    let mut cases = place.cases(&device, &null)?;
    for _ in 0..rounds {
        for case in &mut cases {
            let time_ns = place.batch(case)?;
            case.times_ns.push(time_ns);
        }
    }
    place.leave()?;
    report(device.1, &cases);
    Ok(())
}

/// What is timed.
#[derive(Clone, Copy)]
struct Operation {
    name: &'static str,
    act: fn(&CString) -> io::Result<()>,
}

/// `open` is what users do; `access` asks the same programs and does little else, so it shows their own cost with less noise.
const OPERATIONS: [Operation; 2] = [
    Operation {
        name: "open",
        act: open,
    },
    Operation {
        name: "access",
        act: access,
    },
];

fn open(path: &CString) -> io::Result<()> {
    // SAFETY: a C string that lives through the call.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    // SAFETY: the descriptor was opened above and is used nowhere else.
    if fd >= 0 && unsafe { libc::close(fd) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn access(path: &CString) -> io::Result<()> {
    // SAFETY: a C string that lives through the call.
    let result = unsafe { libc::access(path.as_ptr(), libc::R_OK) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// One operation on one device under one program.
struct Case {
    operation: Operation,
    device: &'static str,
    program: &'static str,
    cgroup: PathBuf,
    path: CString,
    times_ns: Vec<f64>,
}

/// Prints the measurements and the ratios that issue 2 bounds.
fn report(number: DeviceNumber, cases: &[Case]) {
    let DeviceNumber { major, minor } = number;
    for Case {
        operation,
        device,
        program,
        times_ns,
        ..
    } in cases
    {
        let number = if *device == "base" {
            "1:3".to_owned()
        } else {
            format!("{major}:{minor}")
        };
        let [min, p10, median] = SHARES.map(|share| quantile(times_ns, share));
        println!(
            r#"{{"bench":"fence","operation":"{}","device":"{device}","number":"{number}","program":"{program}","min_ns":{min:.0},"p10_ns":{p10:.0},"median_ns":{median:.0},"batches":{}}}"#,
            operation.name,
            times_ns.len()
        );
    }
    for operation in OPERATIONS {
        for (device, beside, target) in [
            ("base", "return1", 1.2),
            ("unfenced", "return1", 1.2),
            ("granted", "generated12", 2.0),
        ] {
            let [none, other, ours] = ["none", beside, "spur"].map(|program| {
                let wanted = |case: &&Case| {
                    (case.operation.name, case.device, case.program)
                        == (operation.name, device, program)
                };
                cases
                    .iter()
                    .find(wanted)
                    .map_or(&[][..], |case| &case.times_ns)
            });
            print_ratio(operation.name, device, beside, target, none, other, ours);
        }
    }
}

/// "whole" compares the operations, "added" what each program adds to the operation without one.
fn print_ratio(
    operation: &str,
    device: &str,
    beside: &str,
    target: f64,
    none: &[f64],
    other: &[f64],
    ours: &[f64],
) {
    let whole = SHARES.map(|share| quantile(ours, share) / quantile(other, share));
    let added = SHARES.map(|share| {
        let none = quantile(none, share);
        (quantile(ours, share) - none) / (quantile(other, share) - none)
    });
    println!(
        r#"{{"bench":"fence_ratio","operation":"{operation}","device":"{device}","beside":"{beside}","target":{target},"whole_min":{:.3},"whole_p10":{:.3},"whole_median":{:.3},"added_min":{:.2},"added_p10":{:.2},"added_median":{:.2}}}"#,
        whole[0], whole[1], whole[2], added[0], added[1], added[2]
    );
}

/// Shares of the batches: the fastest one, a tenth, half.
const SHARES: [f64; 3] = [0.0, 0.1, 0.5];

/// The time below which this share of the batches stayed.
fn quantile(times_ns: &[f64], share: f64) -> f64 {
    let mut sorted = times_ns.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a length"
    )]
    let index = (sorted.len() as f64 * share) as usize;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

/// A device to open that is not on the base list.
fn device() -> Result<(CString, DeviceNumber), Box<dyn Error>> {
    for path in CANDIDATES {
        let Ok(meta) = fs::metadata(path) else {
            continue;
        };
        if meta.file_type().is_char_device() && File::open(path).is_ok() {
            let number = DeviceNumber {
                major: libc::major(meta.rdev()),
                minor: libc::minor(meta.rdev()),
            };
            return Ok((CString::new(path)?, number));
        }
    }
    Err(format!("none of {CANDIDATES:?} can be opened here").into())
}

/// Cgroups and a BPF file system of this run's own.
struct Place {
    folder: tempfile::TempDir,
    root: PathBuf,
    mount: PathBuf,
}

impl Place {
    fn new() -> Result<Place, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let mounts = fs::read_to_string("/proc/mounts")?;
        let mount = mounts
            .lines()
            .find(|line| line.split(' ').nth(2) == Some("cgroup2"))
            .and_then(|line| line.split(' ').nth(1))
            .ok_or("no cgroup v2 tree is mounted")?;
        let mount = PathBuf::from(mount);
        let root = mount.join(format!("spur-bench-{}", std::process::id()));
        fs::create_dir(&root)?;
        mount_bpffs_if_needed(&folder.path().join("bpf"))?;
        Ok(Place {
            folder,
            root,
            mount,
        })
    }

    /// Every device under every program.
    fn cases(
        &self,
        device: &(CString, DeviceNumber),
        null: &CString,
    ) -> Result<Vec<Case>, Box<dyn Error>> {
        let (path, number) = device;
        let none = self.cgroup("none")?;
        let return1 = self.cgroup("return1")?;
        attach(&load(&[MOV_R0_1, EXIT])?, &return1)?;
        let generated = self.cgroup("generated")?;
        attach(&load(&generated_rules(*number))?, &generated)?;
        let open = self.fenced("open", &DeviceTable::new())?;
        let bit = GrantBit::new(77).ok_or("a bit")?;
        let mut table = DeviceTable::new();
        table
            .deny_memory()
            .set_major(number.major, MajorClass::Listed)
            .list(*number, Rule::Bit(bit));
        let granted = self.fenced("granted", &table)?;

        let programs = |spur: &PathBuf| {
            [
                ("none", none.clone()),
                ("return1", return1.clone()),
                ("generated12", generated.clone()),
                ("spur", spur.clone()),
            ]
        };
        let mut cases = Vec::new();
        for (device, path, spur) in [
            ("base", null, &granted),
            ("unfenced", path, &open),
            ("granted", path, &granted),
        ] {
            for (program, cgroup) in programs(spur) {
                for operation in OPERATIONS {
                    let (cgroup, path) = (cgroup.clone(), path.clone());
                    cases.push(Case {
                        operation,
                        device,
                        program,
                        cgroup,
                        path,
                        times_ns: Vec::new(),
                    });
                }
            }
        }
        Ok(cases)
    }

    fn cgroup(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.root.join(name);
        fs::create_dir(&path)?;
        Ok(path)
    }

    /// A cgroup under our fence with this table and bit 77 granted.
    fn fenced(&self, name: &str, table: &DeviceTable) -> Result<PathBuf, Box<dyn Error>> {
        let cgroup = self.cgroup(name)?;
        let fence = Fence::open_or_load(&self.folder.path().join("bpf").join(name))?;
        fence.set_devices(table)?;
        let job = fence.attach(&cgroup, name)?;
        job.write_policy(&Policy {
            job: 1,
            grants: GrantBit::new(77).into_iter().collect(),
            ..Policy::default()
        })?;
        Ok(cgroup)
    }

    /// Nanoseconds of this thread's time per operation, inside the cgroup.
    fn batch(&self, case: &Case) -> io::Result<f64> {
        fs::write(case.cgroup.join("cgroup.procs"), "0")?;
        let start = thread_time_ns();
        for _ in 0..BATCH {
            (case.operation.act)(&case.path)?;
        }
        Ok((thread_time_ns() - start) as f64 / f64::from(BATCH))
    }

    /// Goes back where this process can stay and removes what was made.
    fn leave(&self) -> io::Result<()> {
        fs::write(self.mount.join("cgroup.procs"), "0")?;
        for entry in fs::read_dir(&self.root)?
            .flatten()
            .filter(|entry| entry.path().is_dir())
        {
            fs::remove_dir(entry.path())?;
        }
        fs::remove_dir(&self.root)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let bpf = self.folder.path().join("bpf");
        let Ok(bpf) = CString::new(bpf.as_os_str().as_bytes()) else {
            return;
        };
        // SAFETY: a C string that lives through the call.
        unsafe { libc::umount2(bpf.as_ptr(), libc::MNT_DETACH) };
    }
}

fn thread_time_ns() -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` has room for the answer; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// One BPF instruction as the kernel reads it: opcode, registers, offset, immediate.
const fn insn(code: u8, dst: u8, src: u8, off: i16, imm: u32) -> u64 {
    code as u64
        | (dst as u64) << 8
        | (src as u64) << 12
        | (off.cast_unsigned() as u64) << 16
        | (imm as u64) << 32
}

const MOV_R0_1: u64 = insn(0xb7, 0, 0, 0, 1);
const MOV_R0_0: u64 = insn(0xb7, 0, 0, 0, 0);
const EXIT: u64 = insn(0x95, 0, 0, 0, 0);

/// What container runtimes generate: a chain of rules over type, major and minor, deny at its end.
fn generated_rules(device: DeviceNumber) -> Vec<u64> {
    const CHAR: u32 = 2;
    let mut program = vec![
        insn(0x61, 2, 1, 0, 0),      // r2 = access_type
        insn(0x54, 2, 0, 0, 0xffff), // w2 &= 0xffff
        insn(0x61, 4, 1, 4, 0),      // r4 = major
        insn(0x61, 5, 1, 8, 0),      // r5 = minor
    ];
    for rule in 1..=RULES {
        let (major, minor) = if rule == RULES {
            (device.major, device.minor)
        } else {
            (2000 + rule, rule)
        };
        program.extend([
            insn(0x55, 2, 0, 4, CHAR),  // if r2 != CHAR skip the rule
            insn(0x55, 4, 0, 3, major), // if r4 != major skip the rule
            insn(0x55, 5, 0, 2, minor), // if r5 != minor skip the rule
            MOV_R0_1,
            EXIT,
        ]);
    }
    // The base case has to open too: the last rule again, for null.
    program.extend([
        insn(0x55, 4, 0, 3, 1),
        insn(0x55, 5, 0, 2, 3),
        MOV_R0_1,
        EXIT,
        MOV_R0_0,
        EXIT,
    ]);
    program
}

fn load(program: &[u64]) -> Result<File, Box<dyn Error>> {
    // SAFETY: the instructions have the kernel's 8-byte form, and all pointers live through the call.
    let fd = unsafe {
        libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_CGROUP_DEVICE,
            c"bench".as_ptr(),
            c"GPL".as_ptr(),
            program.as_ptr().cast(),
            program.len() as libbpf_sys::size_t,
            std::ptr::null_mut(),
        )
    };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd).into());
    }
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) })
}

/// Attaches for as long as the cgroup lives.
fn attach(program: &File, cgroup: &Path) -> io::Result<()> {
    let folder = File::open(cgroup)?;
    // SAFETY: both descriptors are open for the length of the call.
    let result = unsafe {
        libbpf_sys::bpf_prog_attach(
            program.as_raw_fd(),
            folder.as_raw_fd(),
            libbpf_sys::BPF_CGROUP_DEVICE,
            libbpf_sys::BPF_F_ALLOW_MULTI,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(-result))
    }
}
