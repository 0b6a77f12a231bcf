//! A slab whose entries can stand in one list at a time.
//!
//! Jobs stand in the queue of a lane, lanes in the ring or in a budget's line, idle budgets in
//! the order in which they went idle. Each of these must be left from the middle in constant
//! time (a cancelled batch takes out only its own lanes), so the links live in the slab's slots.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

/// No slot: the end of a list.
const NIL: u32 = u32::MAX;
/// In `prev`: the slot stands in no list.
const LOOSE: u32 = u32::MAX - 1;

/// Names an entry of the slab of kind `K`; of an entry that is gone it names nothing, even if the slot is used again.
pub(super) struct Id<K> {
    index: u32,
    /// Unique but for a wrap after four thousand million entries.
    serial: u32,
    of: PhantomData<fn() -> K>,
}

impl<K> Clone for Id<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Id<K> {}

impl<K> PartialEq for Id<K> {
    fn eq(&self, other: &Self) -> bool {
        (self.index, self.serial) == (other.index, other.serial)
    }
}

impl<K> Eq for Id<K> {}

impl<K> Hash for Id<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(u64::from(self.serial) << 32 | u64::from(self.index));
    }
}

impl<K> fmt::Debug for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.serial)
    }
}

impl<K> Id<K> {
    /// An identifier that names nothing, to fill arrays with.
    pub(super) const NONE: Self = Self {
        index: NIL,
        serial: 0,
        of: PhantomData,
    };
}

struct Slot<T> {
    serial: u32,
    prev: u32,
    next: u32,
    value: Option<T>,
}

/// Entries of kind `K`, a type that only tells identifiers of one slab from those of another.
pub(super) struct Slab<K, T> {
    slots: Vec<Slot<T>>,
    /// First of the free slots, which are chained by `next`.
    free: u32,
    len: usize,
    serial: u32,
    of: PhantomData<fn() -> K>,
}

impl<K, T> Slab<K, T> {
    pub(super) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: NIL,
            len: 0,
            serial: 0,
            of: PhantomData,
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// # Panics
    /// At four thousand million entries.
    pub(super) fn insert(&mut self, value: T) -> Id<K> {
        self.serial = self.serial.wrapping_add(1);
        let slot = Slot {
            serial: self.serial,
            prev: LOOSE,
            next: NIL,
            value: Some(value),
        };
        let index = if self.free == NIL {
            assert!(self.slots.len() < LOOSE as usize, "too many entries");
            self.slots.push(slot);
            (self.slots.len() - 1) as u32
        } else {
            let index = self.free;
            self.free = self.slots[index as usize].next;
            self.slots[index as usize] = slot;
            index
        };
        self.len += 1;
        Id {
            index,
            serial: self.serial,
            of: PhantomData,
        }
    }

    /// Takes an entry out. It must stand in no list.
    pub(super) fn remove(&mut self, id: Id<K>) -> Option<T> {
        self.get(id)?;
        let slot = &mut self.slots[id.index as usize];
        debug_assert_eq!(slot.prev, LOOSE, "removed while in a list");
        let value = slot.value.take();
        slot.next = self.free;
        self.free = id.index;
        self.len -= 1;
        if self.len == 0 && self.slots.len() > 1024 {
            // After a rush of a million jobs the memory goes back. Serial numbers go on, so
            // that old identifiers stay void.
            self.slots = Vec::new();
            self.free = NIL;
        }
        value
    }

    pub(super) fn get(&self, id: Id<K>) -> Option<&T> {
        let slot = self.slots.get(id.index as usize)?;
        if slot.serial == id.serial {
            slot.value.as_ref()
        } else {
            None
        }
    }

    pub(super) fn get_mut(&mut self, id: Id<K>) -> Option<&mut T> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.serial == id.serial {
            slot.value.as_mut()
        } else {
            None
        }
    }

    /// All entries as they are now.
    pub(super) fn ids(&self) -> Vec<Id<K>> {
        (0..self.slots.len() as u32)
            .filter(|&index| self.slots[index as usize].value.is_some())
            .map(|index| self.id_at(index))
            .collect()
    }

    fn id_at(&self, index: u32) -> Id<K> {
        Id {
            index,
            serial: self.slots[index as usize].serial,
            of: PhantomData,
        }
    }
}

impl<K, T> std::ops::Index<Id<K>> for Slab<K, T> {
    type Output = T;

    /// # Panics
    /// If the entry is gone: the caller holds something that keeps it.
    fn index(&self, id: Id<K>) -> &T {
        self.get(id).expect("an entry that is still held")
    }
}

impl<K, T> std::ops::IndexMut<Id<K>> for Slab<K, T> {
    fn index_mut(&mut self, id: Id<K>) -> &mut T {
        self.get_mut(id).expect("an entry that is still held")
    }
}

/// A first-in-first-out list of entries of one slab. Dropping it leaves the entries linked.
pub(super) struct List<K> {
    head: u32,
    tail: u32,
    of: PhantomData<fn() -> K>,
}

impl<K> Default for List<K> {
    fn default() -> Self {
        Self {
            head: NIL,
            tail: NIL,
            of: PhantomData,
        }
    }
}

impl<K> List<K> {
    pub(super) fn is_empty(&self) -> bool {
        self.head == NIL
    }

    pub(super) fn front<T>(&self, slab: &Slab<K, T>) -> Option<Id<K>> {
        (self.head != NIL).then(|| slab.id_at(self.head))
    }

    pub(super) fn push_back<T>(&mut self, slab: &mut Slab<K, T>, id: Id<K>) {
        let tail = self.tail;
        let slot = Self::loose(slab, id);
        slot.prev = tail;
        slot.next = NIL;
        if tail == NIL {
            self.head = id.index;
        } else {
            slab.slots[tail as usize].next = id.index;
        }
        self.tail = id.index;
    }

    pub(super) fn push_front<T>(&mut self, slab: &mut Slab<K, T>, id: Id<K>) {
        let head = self.head;
        let slot = Self::loose(slab, id);
        slot.prev = NIL;
        slot.next = head;
        if head == NIL {
            self.tail = id.index;
        } else {
            slab.slots[head as usize].prev = id.index;
        }
        self.head = id.index;
    }

    pub(super) fn pop_front<T>(&mut self, slab: &mut Slab<K, T>) -> Option<Id<K>> {
        let id = self.front(slab)?;
        self.remove(slab, id);
        Some(id)
    }

    /// Takes out an entry, which must stand in this list.
    pub(super) fn remove<T>(&mut self, slab: &mut Slab<K, T>, id: Id<K>) {
        let slot = &mut slab.slots[id.index as usize];
        debug_assert!(slot.serial == id.serial && slot.prev != LOOSE);
        let (prev, next) = (slot.prev, slot.next);
        slot.prev = LOOSE;
        slot.next = NIL;
        match prev {
            NIL => self.head = next,
            prev => slab.slots[prev as usize].next = next,
        }
        match next {
            NIL => self.tail = prev,
            next => slab.slots[next as usize].prev = prev,
        }
    }

    /// All of them in their order.
    #[cfg(test)]
    pub(super) fn ids<T>(&self, slab: &Slab<K, T>) -> Vec<Id<K>> {
        let next = |id: &Id<K>| {
            let next = slab.slots[id.index as usize].next;
            (next != NIL).then(|| slab.id_at(next))
        };
        std::iter::successors(self.front(slab), next).collect()
    }

    fn loose<T>(slab: &mut Slab<K, T>, id: Id<K>) -> &mut Slot<T> {
        let slot = &mut slab.slots[id.index as usize];
        debug_assert!(slot.serial == id.serial && slot.prev == LOOSE);
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    enum K {}

    fn drain(list: &mut List<K>, slab: &mut Slab<K, u32>) -> Vec<u32> {
        std::iter::from_fn(|| list.pop_front(slab).map(|id| slab[id])).collect()
    }

    #[test]
    fn an_entry_is_taken_out_of_the_middle_of_a_list() {
        let mut slab = Slab::<K, _>::new();
        let mut list = List::default();
        let ids: Vec<_> = (0..5).map(|n| slab.insert(n)).collect();
        for &id in &ids[1..] {
            list.push_back(&mut slab, id);
        }
        list.push_front(&mut slab, ids[0]);
        for gone in [2, 0, 4] {
            list.remove(&mut slab, ids[gone]);
        }
        list.push_back(&mut slab, ids[0]);
        assert_eq!(drain(&mut list, &mut slab), [1, 3, 0]);
        assert!(list.is_empty());
    }

    #[test]
    fn an_identifier_of_a_gone_entry_names_nothing_even_after_the_slot_is_used_again() {
        let mut slab = Slab::<K, _>::new();
        let old = slab.insert('a');
        assert_eq!(slab.remove(old), Some('a'));
        let new = slab.insert('b');
        assert_eq!(slab.get(old), None);
        assert_eq!(slab.remove(old), None);
        assert_eq!(slab[new], 'b');
        assert_eq!(slab.len(), 1);
    }

    #[test]
    fn memory_of_a_rush_goes_back_and_old_identifiers_stay_void() {
        let mut slab = Slab::<K, _>::new();
        let ids: Vec<_> = (0..5000).map(|n| slab.insert(n)).collect();
        for &id in &ids {
            slab.remove(id);
        }
        assert_eq!(slab.slots.capacity(), 0);
        let new: Vec<_> = (0..5000).map(|n| slab.insert(n)).collect();
        assert!(ids.iter().all(|&id| slab.get(id).is_none()));
        assert!(new.iter().all(|&id| slab.get(id).is_some()));
    }
}
