//! Whose process it is: by the control group that it is in, which only the agent makes.

use spur_core::id::JobId;
use std::path::Path;

/// The job whose group below `folder` (without a slash in front, as configured) the process is in.
pub fn job_of(proc: &Path, folder: &Path, pid: u32) -> Option<JobId> {
    let text = std::fs::read_to_string(proc.join(pid.to_string()).join("cgroup")).ok()?;
    parse(&text, folder)
}

/// From the text of `/proc/PID/cgroup`: the v2 tree's line is `0::/path`.
fn parse(text: &str, folder: &Path) -> Option<JobId> {
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let below = Path::new(path).strip_prefix(folder).ok()?;
    let name = below.iter().next()?.to_str()?;
    name.strip_prefix("job_")?.parse().ok().map(JobId)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_of_the_agents_folder_are_jobs() {
        let of = |text| parse(text, Path::new("spur/n1"));
        assert_eq!(of("5:cpu:/x\n0::/spur/n1/job_12/step_0\n"), Some(JobId(12)));
        assert_eq!(of("0::/spur/n1/job_12\n"), Some(JobId(12)));
        for other in [
            "",
            "0::/\n",
            "0::/spur/n2/job_1\n",
            "0::/spur/n1/job_x\n",
            "0::/a/spur/n1/job_1\n",
            "1:name:/spur/n1/job_1\n",
        ] {
            assert_eq!(of(other), None, "{other:?}");
        }
    }
}
