//! Pings around teams.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::network::Network;
use super::{ms_or_null, short};

/// Ways around that are remembered: teams are drawn anew.
const LOOPS_MAX: usize = 64;
/// Those that are shown, the latest ones.
const SHOWN_MAX: usize = 8;
/// Pings of a way that are remembered.
const HISTORY: usize = 60;

/// By members.
#[derive(Debug, Default)]
pub(super) struct Pings(BTreeMap<Vec<String>, Loop>);

#[derive(Debug, Default)]
struct Loop {
    last_at: u64,
    /// The latest that came back.
    took: Option<u64>,
    history: Vec<Option<u64>>,
    back: u64,
    lost: u64,
}

impl Pings {
    pub(super) fn take(&mut self, members: &[String], at: u64, took: Option<u64>) {
        let members: Vec<String> = members.iter().take(64).map(|member| short(member)).collect();
        let ping = self.0.entry(members).or_default();
        ping.last_at = at;
        match took {
            Some(took) => (ping.took, ping.back) = (Some(took), ping.back + 1),
            None => ping.lost += 1,
        }
        ping.history.push(took);
        if ping.history.len() > HISTORY {
            ping.history.remove(0);
        }
        if self.0.len() > LOOPS_MAX {
            let oldest =
                self.0.iter().min_by_key(|(_, ping)| ping.last_at).map(|(members, _)| members.clone());
            oldest.map(|members| self.0.remove(&members));
        }
    }

    /// Each way with the round trips of its links.
    pub(super) fn view(&self, network: &Network) -> Value {
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_by(|a, b| b.1.last_at.cmp(&a.1.last_at).then(a.0.cmp(b.0)));
        let ways = all.into_iter().take(SHOWN_MAX).map(|(members, ping)| {
            let next = members.iter().cycle().skip(1);
            let links = members.iter().zip(next).map(|(from, to)| {
                let round_trip = network.round_trip(from, to).or_else(|| network.round_trip(to, from));
                json!({ "from": from, "to": to, "round_trip_ms": ms_or_null(round_trip) })
            });
            json!({
                "members": members,
                "loop_ms": ms_or_null(ping.took),
                "history_ms": ping.history.iter().map(|took| ms_or_null(*took)).collect::<Vec<_>>(),
                "back": ping.back,
                "lost": ping.lost,
                "links": links.collect::<Vec<_>>(),
            })
        });
        ways.collect()
    }
}
