//! Cost of a slot in each phase, compared with the library's own operations, and scaling of the
//! precomputation with cores.
//!
//! `cargo bench -p samara-mix` measures the group of 2048 bits. It fails if a phase costs more than
//! 1.2 times what its operations cost in the library's own loop. `-- modp-4096` measures the other
//! group, `-- modp-2048 4` a team of 4.
#![allow(clippy::unwrap_used, reason = "a benchmark")]

use std::collections::{BTreeMap, VecDeque};
use std::hint::black_box;
use std::sync::mpsc;
use std::time::Instant;

use crypto_bigint::modular::{ConstMontyForm, ConstMontyParams};
use crypto_bigint::{U2048, U4096, Uint, const_monty_params};
use nix::time::{ClockId, clock_gettime};
use samara_engine::Shape;
use samara_engine::{
    Context, Effects, Engine, Input, NodeRng, Outbox, PeerId, PeerIdentity, PeerInfo, Purpose, Time,
};
use samara_mix::{
    Batch, Command, Config, Event, Group, Job, MixFrame, Node, NodeState, Phase, Plan, Pool, Secret, Sender,
    SenderId, Transfer,
};

// Any odd modulus with the top bit set costs the same.
const_monty_params!(
    Any2048,
    U2048,
    "C90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22\
     514A08798E3404DDEF9519B3CD3A431B302B0A6DF25F14374FE1356D6D51C245\
     E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7EDEE386BFB5A899FA5\
     AE9F24117C4B1FE649286651ECE45B3DC2007CB8A163BF0598DA48361C55D39A\
     69163FA8FD24CF5F83655D23DCA3AD961C62F356208552BB9ED529077096966D\
     670C354E4ABC9804F1746C08CA18217C32905E462E36CE3BE39E772C180E8603\
     9B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF6955817183995497CEA956AE5\
     15D2261898FA051015728E5A8AACAA68FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"
);
const_monty_params!(
    Any4096,
    U4096,
    "C90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22\
     514A08798E3404DDEF9519B3CD3A431B302B0A6DF25F14374FE1356D6D51C245\
     E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7EDEE386BFB5A899FA5\
     AE9F24117C4B1FE649286651ECE45B3DC2007CB8A163BF0598DA48361C55D39A\
     69163FA8FD24CF5F83655D23DCA3AD961C62F356208552BB9ED529077096966D\
     670C354E4ABC9804F1746C08CA18217C32905E462E36CE3BE39E772C180E8603\
     9B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF6955817183995497CEA956AE5\
     15D2261898FA051015728E5A8AACAA68FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF\
     C90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22\
     514A08798E3404DDEF9519B3CD3A431B302B0A6DF25F14374FE1356D6D51C245\
     E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7EDEE386BFB5A899FA5\
     AE9F24117C4B1FE649286651ECE45B3DC2007CB8A163BF0598DA48361C55D39A\
     69163FA8FD24CF5F83655D23DCA3AD961C62F356208552BB9ED529077096966D\
     670C354E4ABC9804F1746C08CA18217C32905E462E36CE3BE39E772C180E8603\
     9B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF6955817183995497CEA956AE5\
     15D2261898FA051015728E5A8AACAA68FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"
);

const SENDER: SenderId = SenderId([1; 32]);

/// Seconds that the library takes for its own operations.
struct Library {
    power: f64,
    product: f64,
    inversion: f64,
    /// Drawing two elements from a stream of BLAKE3.
    stream: f64,
}

/// Returns the CPU time of this thread in seconds, which excludes other programs.
fn clock() -> f64 {
    let ran = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
    ran.tv_sec() as f64 + ran.tv_nsec() as f64 / 1e9
}

/// Returns the best of several runs, in seconds for each repetition.
fn best<T>(times: u32, mut work: impl FnMut() -> T) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = clock();
        (0..times).for_each(|_| {
            black_box(work());
        });
        best = best.min((clock() - start) / f64::from(times));
    }
    best
}

fn library<M: ConstMontyParams<LIMBS>, const LIMBS: usize>(exponent_bits: u32) -> Library {
    let base = ConstMontyForm::<M, LIMBS>::new(&Uint::<LIMBS>::MAX.shr_vartime(3));
    let other = base.square();
    let exponent = Uint::<LIMBS>::MAX.shr_vartime(LIMBS as u32 * 64 - exponent_bits);
    Library {
        power: best(20, || black_box(&base).pow_amm_bounded_exp(black_box(&exponent), exponent_bits)),
        product: best(10_000, || black_box(&base).mul(black_box(&other))),
        inversion: best(20, || black_box(&base).invert()),
        stream: best(1_000, || {
            let mut elements = vec![0; 2 * LIMBS * 8];
            blake3::Hasher::new_keyed(black_box(&[7; 32]))
                .update(&[1; 64])
                .finalize_xof()
                .fill(&mut elements);
            elements
        }),
    }
}

impl Library {
    /// Returns the cost of a job on slots with only the library's operations. Powers with a table
    /// count as powers.
    fn bound(&self, phase: Phase, job: &Job) -> f64 {
        let (powers, products, streams) = match phase {
            Phase::PrecomputeDecrypt | Phase::PrecomputePermute => (4, 6, 2),
            Phase::Reveal if job.is_last() => (2, 12, 0),
            Phase::Reveal => (2, 0, 0),
            Phase::Decrypt => (0, 4, 3),
            Phase::Permute if job.is_last() => (0, 6, 1),
            Phase::Permute | Phase::Result => (0, 2, 1),
        };
        let slot = f64::from(powers) * self.power
            + f64::from(products) * self.product
            + f64::from(streams) * self.stream;
        // The last node divides out the keys of all slots of a job with one inversion.
        let strips = phase == Phase::Reveal && job.is_last();
        f64::from(job.slots()) * slot + f64::from(u8::from(strips)) * self.inversion
    }
}

/// A team in memory, with this type as its scheduler. Frames arrive at once.
struct Team {
    nodes: Vec<(Node, Outbox<MixFrame>, NodeRng)>,
    inputs: VecDeque<(usize, Input<MixFrame, Command>)>,
    plan: Plan,
    delivered: usize,
}

fn identity(number: usize) -> PeerIdentity {
    PeerIdentity::new(&(number as u32).to_be_bytes())
}

impl Team {
    fn new(group: Group, size: usize, batch: u32, jobs_max: usize) -> Self {
        let config = Config {
            pool: (0..size).map(identity).collect(),
            scheduler: identity(size),
            group,
            team: size,
            batch,
            jobs_max,
            ..Config::default()
        };
        let node = |number| {
            let node = Node::new(config.clone(), number as u32, Secret::new([number as u8; 32])).unwrap();
            (node, Outbox::new(config.outbox()), NodeRng::new(1, number as u64, Purpose::Engine))
        };
        let plan = Plan {
            round: 0,
            team: (0..size as u32).collect(),
            incarnations: Vec::new(),
            batch,
            precomputation_slots: config.precomputation_slots,
            realtime_slots: config.realtime_slots,
            transfer: Transfer::Streamed,
            shape: Shape::Direct,
        };
        let nodes = (0..size).map(node).collect();
        let mut team = Self { nodes, inputs: VecDeque::new(), plan, delivered: 0 };
        for host in 0..size {
            team.inputs.push_back((host, Input::Start));
            for other in (0..=size).filter(|other| *other != host) {
                let peer = PeerId(other as u32);
                team.nodes[host].1.link_up(peer);
                let info = PeerInfo {
                    identity: identity(other),
                    outbound: true,
                    address: None,
                    protocol: "mix/1".into(),
                };
                team.inputs.push_back((host, Input::LinkUp { peer, info }));
            }
            let register = Command::Register { sender: SENDER, secret: Secret::new([host as u8; 32]) };
            team.inputs.push_back((host, Input::Command(register)));
            team.schedule(host, MixFrame::Create(team.plan.clone().into()));
        }
        team
    }

    fn schedule(&mut self, host: usize, frame: MixFrame) {
        let peer = PeerId(self.nodes.len() as u32);
        self.inputs.push_back((host, Input::Frame { peer, frame }));
    }

    /// Handles one input. Returns the jobs that follow from it.
    fn step(&mut self) -> Option<Vec<(usize, Job)>> {
        let (host, input) = self.inputs.pop_front()?;
        let mut effects = Effects::default();
        let (node, outbox, rng) = &mut self.nodes[host];
        node.handle(input, &mut Context::new(Time::ZERO, rng, outbox, &mut effects));
        while let Some(copy) = outbox.pop(Time::ZERO, |_| true) {
            let input = Input::Frame { peer: PeerId(host as u32), frame: copy.frame };
            if copy.peer.index() < self.plan.team.len() {
                self.inputs.push_back((copy.peer.index(), input));
            }
        }
        let mut jobs = Vec::new();
        for event in effects.events {
            match event {
                Event::Compute(job) => jobs.push((host, job)),
                Event::Delivered { .. } => self.delivered += 1,
                Event::Failed { failure, .. } => panic!("{failure:?}"),
                Event::Refused { error, .. } => panic!("{error}"),
                _ => {}
            }
        }
        Some(jobs)
    }

    fn all(&self, state: NodeState) -> bool {
        self.nodes.iter().all(|(node, ..)| node.rounds().all(|(_, of)| of == state))
    }

    /// Runs all jobs on this thread, one after another.
    fn run(&mut self, library: &Library, mut measure: impl FnMut(Phase, u32, f64, f64)) {
        while let Some(jobs) = self.step() {
            for (host, job) in jobs {
                let (phase, slots) = (job.phase(), job.slots());
                let bound = phase.map(|phase| (phase, library.bound(phase, &job)));
                let start = clock();
                let done = job.run();
                let took = clock() - start;
                bound.into_iter().for_each(|(phase, bound)| measure(phase, slots, bound, took));
                self.inputs.push_back((host, Input::Command(Command::Computed(done))));
            }
        }
    }

    /// Runs all jobs on a pool of threads.
    fn run_on(&mut self, pool: &Pool) {
        let (sender, receiver) = mpsc::channel();
        let mut out = 0;
        loop {
            while let Some(jobs) = self.step() {
                for (host, job) in jobs {
                    out += 1;
                    let sender = sender.clone();
                    pool.run(job, move |done| sender.send((host, done)).unwrap());
                }
            }
            if out == 0 {
                return;
            }
            let (host, done) = receiver.recv().unwrap();
            out -= 1;
            self.inputs.push_back((host, Input::Command(Command::Computed(done))));
        }
    }

    fn mix(&mut self, group: Group) {
        let mut sender = Sender::new(group, SENDER);
        (0..self.nodes.len()).for_each(|node| sender.register(node as u32, Secret::new([node as u8; 32])));
        let content = vec![7; group.content_bytes()];
        let seal = |slot: u32| {
            let mut salt = [0; 32];
            salt[..4].copy_from_slice(&slot.to_be_bytes());
            sender.seal(0, &self.plan.team, salt, &content).unwrap()
        };
        let sealed: Vec<_> = (0..self.plan.batch).map(seal).collect();
        (0..self.nodes.len()).for_each(|host| self.schedule(host, MixFrame::Queued { round: 0 }));
        let batch = Batch::new(&sealed).unwrap();
        self.inputs.push_back((0, Input::Command(Command::Mix { round: 0, batch })));
    }
}

/// Prints the cost of slots by phase. Returns the worst ratio to the library's operations.
fn phases(group: Group, library: &Library, size: usize) -> f64 {
    let mut costs: BTreeMap<Phase, (Vec<f64>, f64, u32)> = BTreeMap::new();
    let mut team = Team::new(group, size, 128, 1);
    for half in 0..2 {
        if half == 1 {
            assert!(team.all(NodeState::Standby));
            team.mix(group);
        }
        team.run(library, |phase, slots, bound, took| {
            let cost = costs.entry(phase).or_default();
            cost.0.push(took / bound);
            cost.1 += bound;
            cost.2 += slots;
        });
    }
    assert_eq!(team.delivered, size);
    println!("{:<20} {:>14} {:>14} {:>8}", "phase", "us per slot", "library, us", "ratio");
    let mut worst: f64 = 0.0;
    for (phase, (mut ratios, bound, slots)) in costs {
        // The 10th percentile of the ratios, because other programs disturb the caches.
        ratios.sort_by(f64::total_cmp);
        let ratio = ratios[ratios.len() / 10];
        let each = bound / f64::from(slots) * 1e6;
        println!("{:<20} {:>14.1} {:>14.1} {ratio:>8.2}", phase.name(), each * ratio, each);
        worst = worst.max(ratio);
    }
    worst
}

/// Prints the time of a precomputation of 1,000 slots by a team on one machine, on one thread and
/// on all.
fn scaling(group: Group, size: usize) {
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let seconds = [1, all].map(|threads| {
        let pool = Pool::new(threads).unwrap();
        let mut team = Team::new(group, size, 1_000, threads);
        let start = Instant::now();
        team.run_on(&pool);
        assert!(team.all(NodeState::Standby));
        start.elapsed().as_secs_f64()
    });
    println!(
        "precomputation of 1,000 slots, {size} nodes: {:.2} s on 1 thread, {:.2} s on {all}: {:.2} times as fast",
        seconds[0],
        seconds[1],
        seconds[0] / seconds[1]
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let group = arguments.next().map_or(Group::Modp2048, |name| Group::from_name(&name).unwrap());
    let size = arguments.next().map_or(2, |size| size.parse().unwrap());
    let library = match group {
        Group::Modp4096 => library::<Any4096, { U4096::LIMBS }>(320),
        _ => library::<Any2048, { U2048::LIMBS }>(256),
    };
    println!(
        "{}: power {:.0} us, product {:.2} us, inversion {:.0} us, stream {:.2} us",
        group.name(),
        library.power * 1e6,
        library.product * 1e6,
        library.inversion * 1e6,
        library.stream * 1e6
    );
    let worst = phases(group, &library, size);
    scaling(group, size);
    assert!(worst <= 1.2, "a phase costs {worst:.2} times the library's operations");
}
