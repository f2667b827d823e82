//! Containers of a real runtime, runc, as loads: system programs in namespaces and a control group that the runtime
//! creates.

use crate::cgroup;
use crate::command::{NOBODY, run_cleanup};
use crate::error::{Context, Result};
use crate::expect::EntityPattern;
use crate::program::{DIRECTORIES, ProgramCommand};
use crate::testbed::Testbed;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

const RUNTIME: &str = "runc";
/// Parent group of the containers' groups.
const POD: &str = "wslab-containers";
/// Directories of the machine that a container sees, read-only.
const SHARED: &[&str] = &["/usr", "/etc"];
/// Links into /usr on the machine, which must be links in the container, too.
const LINKS: &[&str] = &["bin", "lib", "lib64", "sbin"];

/// Program of a container, and its limits.
pub struct ContainerSpec {
    args: Vec<String>,
    mounts: Vec<Value>,
    resources: Value,
}

/// A running container.
pub struct Container {
    group: String,
}

impl ContainerSpec {
    pub fn new<S: ToString>(args: impl IntoIterator<Item = S>) -> Self {
        Self { args: args.into_iter().map(|arg| arg.to_string()).collect(), mounts: Vec::new(), resources: json!({}) }
    }

    /// Limits the CPU time in each tenth of a second, in microseconds.
    pub fn cpu_quota(mut self, microseconds: u64) -> Self {
        self.resources["cpu"] = json!({ "quota": microseconds, "period": 100_000 });
        self
    }

    /// Limits the memory, in bytes.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.resources["memory"] = json!({ "limit": bytes });
        self
    }

    /// Mounts a directory of the machine at `/data`.
    pub fn data(mut self, directory: &Path) -> Self {
        self.mounts.push(bind(directory, Path::new("/data")));
        self
    }

    /// Starts the container, which runs until the end of the trial.
    ///
    /// # Errors
    /// Returns [`Error::Missing`](crate::error::Error::Missing) if the runtime is not installed.
    pub fn start(self, bed: &mut Testbed) -> Result<Container> {
        let bundle = bed.path("bundle");
        let root = bundle.join("rootfs");
        fs::create_dir_all(&root).context(root.display())?;
        for name in LINKS {
            if let Ok(target) = fs::read_link(Path::new("/").join(name)) {
                symlink(target, root.join(name)).context(name)?;
            }
        }
        let id = format!("{:064x}", bed.range(1..=u128::MAX));
        let group = format!("/{POD}/{id}");
        // The runtime creates the parent group in every hierarchy, but removes only what is in it.
        bed.defer(|| cgroup::remove_everywhere(POD));
        let config = bundle.join("config.json");
        fs::write(&config, self.config(&group).to_string()).context(config.display())?;

        let state = bed.path("runtime");
        let (state_of_runtime, container) = (state.display().to_string(), id.clone());
        // The runtime dies with the lab; its container does not.
        bed.defer(move || run_cleanup(RUNTIME, &["--root", &state_of_runtime, "delete", "--force", &container]));
        let pid_file = bundle.join("pid");
        let run = ProgramCommand::new(&bundle, RUNTIME, RUNTIME)?.with_privileges().args([Path::new("--root"), &state]);
        let run = run.args(["run", "--pid-file"]).args([&pid_file]).args(["--bundle"]).args([&bundle]).args([&id]);
        run.start_until(bed, || fs::read_to_string(&pid_file).is_ok_and(|pid| !pid.is_empty()))?;
        Ok(Container { group })
    }

    /// Returns the file that describes a container to a runtime (OCI Runtime Specification, config.md).
    fn config(&self, group: &str) -> Value {
        let mount = |kind: &str, at: &str, options: &[&str]| json!({ "destination": at, "type": kind, "source": kind, "options": options });
        let mut mounts = vec![
            mount("proc", "/proc", &[]),
            mount("tmpfs", "/dev", &["nosuid", "mode=755"]),
            mount("tmpfs", "/tmp", &["nosuid", "mode=1777"]),
        ];
        mounts.extend(SHARED.iter().map(|directory| bind(Path::new(directory), Path::new(directory))));
        mounts.extend(self.mounts.iter().cloned());
        let namespaces = ["pid", "mount", "ipc", "uts", "network"].map(|kind| json!({ "type": kind }));
        json!({
            "ociVersion": "1.0.2",
            "process": {
                "args": self.args,
                "cwd": "/tmp",
                "env": [format!("PATH={}", DIRECTORIES.join(":")), "LC_ALL=C", "HOME=/tmp"],
                "user": { "uid": NOBODY, "gid": NOBODY },
            },
            "root": { "path": "rootfs" },
            "mounts": mounts,
            "linux": { "namespaces": namespaces, "cgroupsPath": group, "resources": self.resources },
        })
    }
}

impl Container {
    /// Returns a pattern for its control group as the subject of a finding or as a culprit.
    pub fn pattern(&self) -> EntityPattern {
        EntityPattern::Named("cgroup", self.group.clone())
    }
}

fn bind(from: &Path, at: &Path) -> Value {
    json!({ "destination": at, "type": "bind", "source": from, "options": ["rbind", "ro"] })
}
