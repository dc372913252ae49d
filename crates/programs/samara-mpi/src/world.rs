//! The processes that mpirun started.

use mpi::collective::SystemOperation;
use mpi::datatype::{Partition, PartitionMut};
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives};
use samara_sim::{RankError, Ranks};

/// All processes of the run. If one of them exits, MPI ends the others (`MPI_ERRORS_ARE_FATAL`, its
/// default).
pub(crate) struct World {
    communicator: SimpleCommunicator,
    // Finalises MPI when the world is dropped; declared after the communicator to be dropped last.
    _universe: Universe,
}

impl World {
    /// Joins the processes of the run. Returns `None` if MPI is not available.
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
        // Room for at least one byte: the dangling address of an empty vector is 1, which MPI takes
        // for `MPI_IN_PLACE`.
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

/// Returns the offset of each process's bytes.
fn displacements(counts: &[i32]) -> Result<Vec<i32>, RankError> {
    let mut at = 0_i32;
    let mut places = Vec::with_capacity(counts.len());
    for count in counts {
        places.push(at);
        at = at.checked_add(*count).ok_or_else(|| {
            RankError::Gone("more than 2 GiB to exchange in one window; use more processes".to_owned())
        })?;
    }
    Ok(places)
}
