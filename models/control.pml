/*
 * Sessions that come and go: attach, enable, disable, detach (crates/recording/ring/src/area/control/), against threads that write to the
 * shared ring (commit.rs, write).
 *
 * Models: two slots, two regions, collectors that attach, enable, disable and detach, some of them at the same time, and that are
 * killed at any step (the kernel then releases their locks); writers that are asleep, or never wake, at any step.
 *
 * Asserted: nobody writes to memory that another session has been given meanwhile; two sessions never have the same slot or
 * region; that a session wants an event stays so until it or, after its death, another takes that back, and while it does the ring
 * is open; the count of writers comes back to 0.
 *
 * Left out: weak memory, above all the fences of this Dekker's algorithm (loom's part); the CPUs' rings, whose writers nobody
 * counts (publisher.pml); what is in a ring (shared_ring.pml); sizes.
 *
 * Runs (scripts/models):
 * small: -DWRITERS=1
 * small: -DLIVES=1
 * large: -DWRITERS=1 -DHITS=2
 * large: -DWRITERS=1 -DLIVES=3
 * large: -DLIVES=1 -DCOLLECTORS=3
 * large: -DLIVES=2
 *
 * mutant: look_then_enter                      the writer looks at the ring before it makes itself known
 * mutant: leave_early                          the writer leaves before it has committed
 * mutant: plain_writers -DCOLLECTORS=1 -DLIVES=1  writers are counted by a load and a store
 * mutant: look_then_close                      the collector looks for writers before it closes the ring
 * mutant: reuse_busy_slot                      it does not look for writers at all
 * mutant: region_forgotten                     who detaches says that its region is free while writers are inside
 * mutant: locks_tell                           a slot without lock and writers is taken to use no region
 * mutant: plain_enable                         enable words are changed by a load and a store
 * mutant: enable_first                         events are enabled before the ring is open
 */

#ifndef WRITERS
#define WRITERS 2
#endif
#ifndef HITS
#define HITS 1              /* of each writer */
#endif
#ifndef COLLECTORS
#define COLLECTORS 2        /* at the same time */
#endif
#ifndef LIVES
#define LIVES 2             /* sessions of each collector, one after the other */
#endif
#define SLOTS 2
#define REGIONS 2

#define NOBODY 0
#define NOWHERE 0           /* regions are numbered from 1 */

/* Shared memory. Sessions are numbered from 1. */
byte points;                /* one tracepoint's enable word: which sessions want its events */
byte ring[SLOTS];           /* the session whose ring is open: the ring header's count, and its head; 0: closed */
byte data[SLOTS];           /* the region that the ring header leads to */
byte region[SLOTS];         /* the region that the slot says it uses */
byte writers[SLOTS];

/* The kernel's: who holds the locks on the file. */
byte slot_lock[SLOTS];
byte attach_lock;

/* What the assertions compare with; no code has it. */
byte owner[REGIONS + 1];    /* the session that a region was made for; 0: its memory is given back */

inline touch(where, session) {
    assert(owner[where] == session || owner[where] == NOBODY)
}

proctype writer() {
    byte wanted, slot, seen, where, hits;
    do
    :: hits == HITS -> break
    :: else ->
        wanted = points;
        slot = 0;
        do
        :: slot == SLOTS -> break
        :: slot < SLOTS && !(wanted >> slot & 1) -> slot++
        :: else ->
#ifdef MUTANT_look_then_enter
            seen = ring[slot];
#endif
#ifdef MUTANT_plain_writers
            where = writers[slot];
            writers[slot] = where + 1;
#else
            writers[slot]++;
#endif
#ifndef MUTANT_look_then_enter
            atomic { seen = ring[slot]; assert(seen != 0 || !(points >> slot & 1)) }
#endif
            if
            :: seen == 0
            :: else ->
                where = data[slot];
                touch(where, seen);      /* reserves, writes */
#ifdef MUTANT_leave_early
                writers[slot]--;
#endif
                touch(where, seen);      /* commits */
            fi;
#ifdef MUTANT_leave_early
            if
            :: seen == 0 -> writers[slot]--
            :: else
            fi;
#else
            writers[slot]--;
#endif
            slot++
        od;
        hits++
    od
}

/* A step of a collector, or its death before it. */
#define STEP(...) if :: goto killed :: __VA_ARGS__ fi

inline close(slot) {
    STEP(points = points & ~(1 << slot));
    STEP(ring[slot] = 0)
}

/* Takes the first free slot; clears away what collectors that were killed left in any. */
inline take_slot() {
    slot = SLOTS; i = 0;
    do
    :: i == SLOTS -> break
    :: else ->
        if
        :: atomic { slot_lock[i] == NOBODY -> slot_lock[i] = me };
#ifdef MUTANT_look_then_close
            free = writers[i] == 0;
            close(i);
#else
            close(i);
            STEP(free = writers[i] == 0);
#endif
#ifdef MUTANT_reuse_busy_slot
            free = true;
#endif
            if
            :: free -> STEP(atomic { owner[region[i]] = NOBODY; region[i] = NOWHERE })
            :: else
            fi;
            if
            :: free && slot == SLOTS -> slot = i
            :: else -> STEP(slot_lock[i] = NOBODY)
            fi
        :: atomic { slot_lock[i] != NOBODY -> skip }
        fi;
        i++
    od
}

/* The lowest region that no slot uses. */
inline find_room() {
    where = 1; i = 0;
    do
    :: i == SLOTS || where > REGIONS -> break
    :: else ->
#ifdef MUTANT_locks_tell
        STEP(free = i == slot || (writers[i] == 0 && slot_lock[i] == NOBODY));
#else
        free = i == slot;
#endif
        if
        :: !free && region[i] == where -> where++; i = 0
        :: else -> i++
        fi
    od
}

inline set_bit(slot) {
#ifdef MUTANT_plain_enable
    i = points | 1 << slot;
    STEP(points = i)
#else
    STEP(points = points | 1 << slot)
#endif
}

proctype collector(byte me) {
    byte slot, where, i, lives;
    bool free;
    do
    :: lives == LIVES -> break
    :: else ->
        atomic { attach_lock == NOBODY -> attach_lock = me };
        take_slot();
        if
        :: slot == SLOTS -> goto killed
        :: else
        fi;
        find_room();
        if
        :: where > REGIONS -> goto killed
        :: else
        fi;
        STEP(owner[where] = me);
        STEP(region[slot] = where);
        STEP(data[slot] = where);
#ifdef MUTANT_enable_first
        set_bit(slot);
#endif
        STEP(ring[slot] = me);
        STEP(attach_lock = NOBODY);
        set_bit(slot);

        /* Records. */
        assert(ring[slot] == me && data[slot] == where && owner[where] == me);
        assert(points >> slot & 1);

        STEP(points = points & ~(1 << slot));
        atomic { attach_lock == NOBODY -> attach_lock = me };
        close(slot);
        STEP(owner[where] = NOBODY);
#ifndef MUTANT_region_forgotten
        STEP(free = writers[slot] == 0);
#else
        free = true;
#endif
        if
        :: free -> STEP(region[slot] = NOWHERE)
        :: else
        fi;
killed: skip;
        d_step {
            i = 0;
            do
            :: i == SLOTS -> break
            :: i < SLOTS && slot_lock[i] == me -> slot_lock[i] = NOBODY; i++
            :: else -> i++
            od;
            if
            :: attach_lock == me -> attach_lock = NOBODY
            :: else
            fi;
            slot = 0; where = 0; i = 0; free = false
        }
        me = me + COLLECTORS;
        lives++
    od
}

init {
    atomic {
        run collector(1);
#if COLLECTORS > 1
        run collector(2);
#endif
#if COLLECTORS > 2
        run collector(3);
#endif
        run writer();
#if WRITERS > 1
        run writer()
#endif
    }
    _nr_pr == 1;
    assert(writers[0] == 0 && writers[1] == 0)
}
