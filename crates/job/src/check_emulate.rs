//! Checks of `[cluster.emulate]`: hosts that the local launcher emulates.

use super::check::JobChecker;
use paceline_engine::Mode;
use paceline_place::EmulateSettings;

impl JobChecker<'_> {
    pub(super) fn emulate(&mut self, mode: Mode, servers: usize) -> Option<EmulateSettings> {
        let at = |name: &str| format!("cluster.emulate.{name}");
        if mode == Mode::Single {
            return None;
        }
        let hosts = self.optional(&at("hosts"), Self::whole).map(|hosts| hosts as usize);
        let link_bits_per_s = self.optional(&at("link"), Self::rate);
        let delay_ms = self.optional(&at("delay_ms"), Self::number);
        let cpus = self.optional(&at("cpus"), Self::number);
        let servers_apart = self.text(&at("server")) == "own";
        let hosts = hosts?;
        if servers_apart && mode != Mode::Mirrored && hosts <= servers {
            let message = format!(
                "is {hosts}, but {servers} for servers and at least one for workers are needed"
            );
            self.problems.push(self.job.problem(&at("hosts"), message));
        }
        let delay_ms = delay_ms.unwrap_or(0.0);
        Some(EmulateSettings { hosts, link_bits_per_s, delay_ms, servers_apart, cpus })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RawJob;

    fn checked(lines: &[&str]) -> Result<Option<EmulateSettings>, String> {
        let mut job = RawJob::default();
        job.set("cluster.mode=sync");
        lines.iter().for_each(|line| job.set(line));
        job.check().map(|plan| plan.cluster.emulate).map_err(|problems| problems.to_string())
    }

    const FOUR_HOSTS: &str = "cluster.emulate={hosts=4, link=\"1gbit\", server=\"own\"}";

    #[test]
    fn a_number_of_hosts_enables_emulation() {
        let plan = checked(&[FOUR_HOSTS]).unwrap().unwrap();
        assert_eq!((plan.hosts, plan.link_bits_per_s), (4, Some(1_000_000_000)));
        assert!(plan.servers_apart && plan.cpus.is_none());
        assert_eq!(checked(&[]).unwrap(), None);
    }

    #[test]
    fn problems_of_emulation_name_their_key() {
        let fault = |lines: &[&str]| checked(lines).unwrap_err();
        let alone = fault(&["cluster.emulate={link=\"1gbit\"}"]);
        let needs = "cluster.emulate.link applies only with cluster.emulate.hosts";
        assert!(alone.contains(needs), "{alone}");
        let single = fault(&[FOUR_HOSTS, "cluster.mode=single"]);
        assert!(
            single.contains("cluster.emulate.hosts applies only with cluster.mode"),
            "{single}"
        );
        let few = fault(&["cluster.emulate={hosts=1, server=\"own\"}"]);
        assert!(few.contains("cluster.emulate.hosts is 1, but 1 for servers and"), "{few}");
        let slow = fault(&["cluster.emulate={hosts=1, link=\"1kbit\"}"]);
        assert!(slow.contains("must be a rate such as"), "{slow}");
    }
}
