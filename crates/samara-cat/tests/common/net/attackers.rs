//! What attackers do.

use super::*;

impl Net {
    pub(super) fn hear(&mut self, host: u32, input: Input<CatFrame, Command>) {
        let now = self.now;
        let Host { role: Role::Attacker { attack, heard, bodies, rounds }, outbox, config, .. } =
            &mut self.hosts[host as usize]
        else {
            return;
        };
        let Input::Frame { peer, frame } = input else { return };
        let map = config.sending.map;
        let asked: Vec<TxKey> = match &frame {
            CatFrame::WantTx(key) => vec![**key],
            CatFrame::WantKeys(keys) => keys.iter().copied().collect(),
            _ => Vec::new(),
        };
        match frame {
            CatFrame::SeenTx(seen) => {
                heard.insert(seen.key);
            }
            CatFrame::SeenKeys(seen) => heard.extend(seen.keys.iter().copied()),
            frame => {
                heard.extend(frame.bodies().iter().map(Transaction::key));
                bodies.extend(frame.bodies().iter().cloned());
            }
        }
        if *attack == Attack::Garbage {
            for _ in asked {
                *rounds += 1;
                let garbage = invalid(u64::from(host) << 40 | *rounds, 200);
                let _ = outbox.owe(now, peer, map.bodies, CatFrame::tx(garbage), None, None);
            }
        }
        while heard.len() > HEARD_MAX {
            heard.pop_last();
        }
    }

    /// A round of an attack, 20 times a second.
    pub(super) fn attack(&mut self, host: u32) {
        let (now, until) = (self.now, self.now + Duration::from_millis(50));
        let Host { role: Role::Attacker { attack, heard, bodies, rounds }, outbox, config, up, .. } =
            &mut self.hosts[host as usize]
        else {
            return;
        };
        *rounds += 1;
        let map = config.sending.map;
        let extended = config.protocols.contains(&Protocol::Extended);
        for peer in up.iter() {
            let salt = (u64::from(host) << 44) + (*rounds << 20) + (u64::from(peer.0) << 12);
            let announce = |keys: Vec<TxKey>| -> Vec<CatFrame> {
                if extended {
                    let frame = |keys: &[TxKey]| {
                        let keys = KeyList::new(keys.to_vec());
                        SeenKeys { keys, kind: Kind::Transaction, pushed_by: None }.into()
                    };
                    keys.chunks(KeyList::MAX).map(frame).collect()
                } else {
                    keys.into_iter().map(CatFrame::seen).collect()
                }
            };
            let (lane, frames) = match attack {
                Attack::Withhold => (map.announcements, announce(heard.iter().copied().collect())),
                Attack::Announce => {
                    let keys = (0..40).map(|number: u64| TxKey::of(&(salt + number).to_be_bytes())).collect();
                    (map.announcements, announce(keys))
                }
                Attack::Garbage => {
                    let frames = (0..5).map(|number| CatFrame::tx(invalid(salt + number, 300))).collect();
                    (map.bodies, frames)
                }
                Attack::Unrequested => {
                    let known = bodies.iter().take(20).cloned();
                    (map.bodies, known.map(CatFrame::tx).collect::<Vec<_>>())
                }
                Attack::WantAll => {
                    (map.requests, heard.iter().take(60).map(|key| CatFrame::want(*key)).collect())
                }
            };
            for frame in frames {
                let _ = outbox.owe(now, *peer, lane, frame, None, None);
            }
        }
        self.drain(host);
        self.schedule(until, host, Happening::Attack);
    }
}
