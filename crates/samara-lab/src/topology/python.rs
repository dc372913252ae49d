//! Python's random numbers and sets, as far as graphs of NetworkX depend on them.

/// The generator of Python's `random.Random(seed)`: MT19937 (Matsumoto and Nishimura 1998), seeded by an integer.
#[derive(Clone, Debug)]
pub struct PythonRandom {
    state: Vec<u32>,
    next: usize,
}

const N: usize = 624;
const M: usize = 397;

impl PythonRandom {
    /// Seeded as CPython does it for an integer: by its 32-bit words, lowest first (`init_by_array`).
    pub fn new(seed: u64) -> Self {
        let (low, high) = (seed as u32, (seed >> 32) as u32);
        let key: &[u32] = if high == 0 { &[low] } else { &[low, high] };
        let mut random = Self::from_word(19_650_218);
        let state = &mut random.state;
        let (mut i, mut j) = (1, 0);
        for _ in 0..N.max(key.len()) {
            let mixed = (state[i - 1] ^ (state[i - 1] >> 30)).wrapping_mul(1_664_525);
            state[i] = (state[i] ^ mixed).wrapping_add(key[j]).wrapping_add(j as u32);
            i += 1;
            j = (j + 1) % key.len();
            if i == N {
                state[0] = state[N - 1];
                i = 1;
            }
        }
        for _ in 0..N - 1 {
            let mixed = (state[i - 1] ^ (state[i - 1] >> 30)).wrapping_mul(1_566_083_941);
            state[i] = (state[i] ^ mixed).wrapping_sub(i as u32);
            i += 1;
            if i == N {
                state[0] = state[N - 1];
                i = 1;
            }
        }
        state[0] = 0x8000_0000;
        random
    }

    fn from_word(seed: u32) -> Self {
        let mut state = vec![seed; N];
        for i in 1..N {
            let mixed = state[i - 1] ^ (state[i - 1] >> 30);
            state[i] = 1_812_433_253u32.wrapping_mul(mixed).wrapping_add(i as u32);
        }
        Self { state, next: N }
    }

    fn refill(&mut self) {
        for i in 0..N {
            let mixed = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % N] & 0x7fff_ffff);
            let odd = if mixed & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = self.state[(i + M) % N] ^ (mixed >> 1) ^ odd;
        }
        self.next = 0;
    }

    /// The next 32 random bits.
    pub fn next_u32(&mut self) -> u32 {
        if self.next == N {
            self.refill();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    /// A number below `n`, as `Random._randbelow` draws it: as many bits as `n` has, again until it is below.
    ///
    /// # Panics
    /// If `n` is zero.
    pub fn below(&mut self, n: u32) -> u32 {
        assert!(n > 0, "a number below zero was asked for");
        let bits = 32 - n.leading_zeros();
        loop {
            let drawn = self.next_u32() >> (32 - bits);
            if drawn < n {
                return drawn;
            }
        }
    }
}

/// A Python set of small integers, whose order of iteration is that of CPython's table: open addressing with a short linear
/// run at every probe, and a table that grows by four when it is filled by three fifths.
#[derive(Clone, Debug)]
pub(super) struct PythonSet {
    table: Vec<Option<u32>>,
    len: usize,
}

impl PythonSet {
    const LINEAR_PROBES: usize = 9;
    const PERTURB_SHIFT: u32 = 5;
    const MIN_SIZE: usize = 8;

    pub(super) fn new() -> Self {
        Self { table: vec![None; Self::MIN_SIZE], len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// In the order in which Python would iterate.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        self.table.iter().copied().flatten()
    }

    pub(super) fn insert(&mut self, value: u32) {
        let place = Self::place(&self.table, value);
        if self.table[place].is_some() {
            return;
        }
        self.table[place] = Some(value);
        self.len += 1;
        let mask = self.table.len() - 1;
        if self.len * 5 >= mask * 3 {
            self.grow();
        }
    }

    /// Where the value is, or belongs.
    fn place(table: &[Option<u32>], value: u32) -> usize {
        let mask = table.len() - 1;
        let mut perturb = value as usize;
        let mut start = value as usize & mask;
        loop {
            let run = if start + Self::LINEAR_PROBES <= mask { Self::LINEAR_PROBES } else { 0 };
            let fits = |place: &usize| table[*place].is_none_or(|other| other == value);
            if let Some(place) = (start..=start + run).find(fits) {
                return place;
            }
            perturb >>= Self::PERTURB_SHIFT;
            start = start.wrapping_mul(5).wrapping_add(1).wrapping_add(perturb) & mask;
        }
    }

    fn grow(&mut self) {
        let wanted = if self.len > 50_000 { self.len * 2 } else { self.len * 4 };
        let mut size = Self::MIN_SIZE;
        while size <= wanted {
            size <<= 1;
        }
        let mut table = vec![None; size];
        for value in self.table.iter().copied().flatten() {
            let place = Self::place(&table, value);
            table[place] = Some(value);
        }
        self.table = table;
    }
}
