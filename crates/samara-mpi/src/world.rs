//! The processes that mpirun has started.

use mpi::collective::SystemOperation;
use mpi::datatype::{Partition, PartitionMut};
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives};
use samara_sim::{RankError, Ranks};

/// All processes. A process that is gone ends the others: that is what MPI does by default (`MPI_ERRORS_ARE_FATAL`).
pub(crate) struct World {
    communicator: SimpleCommunicator,
    // Ends MPI last.
    _universe: Universe,
}

impl World {
    /// Joins them; `None` if MPI cannot be used.
    pub(crate) fn join() -> Option<Self> {
        let universe = mpi::initialize()?;
        Some(Self { communicator: universe.world(), _universe: universe })
    }
}

impl Ranks for World {
    fn rank(&self) -> usize {
        self.communicator.rank() as usize
    }

    fn count(&self) -> usize {
        self.communicator.size() as usize
    }

    fn least(&mut self, value: u64) -> Result<u64, RankError> {
        let mut least = value;
        self.communicator.all_reduce_into(&value, &mut least, SystemOperation::min());
        Ok(least)
    }

    fn exchange(&mut self, outgoing: &mut [Vec<u8>]) -> Result<Vec<Vec<u8>>, RankError> {
        let counts = outgoing
            .iter()
            .map(|bytes| i32::try_from(bytes.len()))
            .collect::<Result<Vec<i32>, _>>()
            .map_err(|_| {
                RankError::Gone(
                    "more than 2 GiB for one process in one window; use more processes".to_owned(),
                )
            })?;
        let mut expected = vec![0; counts.len()];
        self.communicator.all_to_all_into(&counts, &mut expected);
        // Where nothing is sent there must be memory all the same: MPI takes the address of an empty vector, 1, for a buffer that is used in place.
        let mut sent = Vec::with_capacity(total(&counts) + 1);
        outgoing.iter().for_each(|bytes| sent.extend_from_slice(bytes));
        outgoing.iter_mut().for_each(Vec::clear);
        let mut received = Vec::with_capacity(total(&expected) + 1);
        received.resize(total(&expected), 0_u8);
        {
            let send = Partition::new(&sent, &counts[..], displacements(&counts)?);
            let mut receive = PartitionMut::new(&mut received, &expected[..], displacements(&expected)?);
            self.communicator.all_to_all_varcount_into(&send, &mut receive);
        }
        let mut rest = received.as_slice();
        let mut incoming = Vec::with_capacity(expected.len());
        for count in expected {
            let (bytes, behind) = rest.split_at(count as usize);
            incoming.push(bytes.to_vec());
            rest = behind;
        }
        Ok(incoming)
    }

    fn give_up(&mut self) {
        self.communicator.abort(i32::from(crate::BAD_INPUT));
    }
}

fn total(counts: &[i32]) -> usize {
    counts.iter().map(|count| *count as usize).sum()
}

/// Where the bytes of each process begin.
fn displacements(counts: &[i32]) -> Result<Vec<i32>, RankError> {
    let mut at = 0_i32;
    let mut places = Vec::with_capacity(counts.len());
    for count in counts {
        places.push(at);
        at = at
            .checked_add(*count)
            .ok_or_else(|| RankError::Gone("more than 2 GiB in one window; use more processes".to_owned()))?;
    }
    Ok(places)
}
