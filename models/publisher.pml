/*
 * The ring of one CPU: records are published by a restartable section (crates/recording/ring/src/write.rs, percpu/src/rseq/).
 *
 * Models: writers that are preempted, migrated, or interrupted by a signal handler that writes too, before each step; the end
 * of a sub-buffer and the words left behind there; the reader that takes and gives back, or with -DOVERWRITE exchanges
 * its spare against the oldest sub-buffer; a program that is killed at any step; a collector that detaches and attaches
 * anew while writers sleep.
 *
 * A thread is on the CPU if `running` says so. Whoever begins a section takes the CPU from whoever has it, and a thread in
 * a section that has lost the CPU starts over. Outside of sections it does not matter where a thread runs, so
 * nothing restricts them there: a signal handler is a thread that happens to finish before the other goes on.
 * A writer that is killed is one that makes no more steps: the collector may look for the last time in any state.
 *
 * With -DPAGES, sub-buffers get memory, and idle rings give it back (read/room.rs, control/pager.rs): the reader and the pager change
 * the bounds of what is open, and publish them. What is taken back reads as zeros, and a writer that comes there all the same gets
 * other memory.
 *
 * Asserted: a sub-buffer that the reader has is never written to; what it reads are the records that were published, each
 * once, whole and in order, with -DSTAMPS with stamps that do not decrease; what it copies without taking it, with -DCOPY, is
 * whole if it is accepted; nothing is published but to the ring that the
 * writer looked at; a record is lost only when the ring is full, and is counted; each sub-buffer is either taken or counted
 * as overwritten. No writer ever waits (Spin reports one that cannot go on), and TRIES bounds how often it tries.
 *
 * Left out: weak memory (loom's part), how long things take, records too large, turns and counts beyond their width, the
 * futex, what a hostile program does. A sub-buffer is a few cells; a record takes one or two, one store each.
 *
 * Assumed: when a ring is opened anew, no section that saw it open before is still under way. Nothing enforces that, since no
 * fence reaches another process: the section would have to last longer than a detach and an attach. The mutant
 * slow_section drops it.
 *
 * Runs (scripts/models):
 * small: -DSTAMPS
 * small: -DSTAMPS -DOVERWRITE
 * small: -DOVERWRITE -DCOPY
 * small: -DSESSIONS=2 -DRECORDS=1
 * small: -DSESSIONS=2 -DRECORDS=1 -DOVERWRITE
 * small: -DPAGES -DWRITERS=1 -DRECORDS=4
 * large: -DPAGES -DWRITERS=1 -DRECORDS=5
 * large: -DPAGES -DRECORDS=2 -DACTS=2 -DTRIES=2
 * large: -DRECORDS=3
 * large: -DRECORDS=3 -DOVERWRITE
 * large: -DRECORDS=3 -DOVERWRITE -DCOPY
 * large: -DRECORDS=3 -DCELLS=3
 * large: -DRECORDS=3 -DCELLS=3 -DOVERWRITE
 * large: -DWRITERS=3 -DRECORDS=1
 * large: -DWRITERS=3 -DRECORDS=1 -DOVERWRITE
 * large: -DSESSIONS=2
 * large: -DSESSIONS=2 -DOVERWRITE
 *
 * mutant: no_restart                           the kernel does not restart sections
 * mutant: head_not_compared                    the section does not compare the head
 * mutant: publish_first                        the head is stored before the record
 * mutant: clock_first -DSTAMPS                 the clock is read before the head
 * mutant: leave_outside                        what is left behind is stored before the section
 * mutant: never_full                           nobody looks what the reader has given back
 * mutant: give_back_early                      the reader gives back before it has read
 * mutant: plain_count                          losses are counted by a load and a store
 * mutant: full_if_stale                        a head that is no longer true can make the ring full
 * mutant: view_first -DSESSIONS=2              the rest of the header is read before the head
 * mutant: same_turn -DSESSIONS=2               every attachment begins with the same turn
 * mutant: closed_once -DSESSIONS=2             a ring is not closed again before it is opened
 * mutant: slow_section -DSESSIONS=2            a section lasts longer than a detach and an attach
 * mutant: full_if_equal -DPAGES -DRECORDS=4 -DWRITERS=1  a writer that is beyond what is open takes the ring for free
 * mutant: open_first -DPAGES -DWRITERS=1 -DRECORDS=4  a sub-buffer is opened before its pages are present
 * mutant: punch_first -DPAGES -DWRITERS=1 -DRECORDS=4  pages are taken before what they are of is closed
 * mutant: punch_next -DPAGES -DWRITERS=1 -DRECORDS=4  pages of the sub-buffer behind the head are taken
 * mutant: one_look -DPAGES -DWRITERS=1 -DRECORDS=4  the head is not looked at again before pages are taken
 * mutant: unsettled -DPAGES -DWRITERS=1 -DRECORDS=4  pages are taken while the reader may still publish older bounds
 * mutant: publish_once -DPAGES -DWRITERS=1 -DRECORDS=4  who publishes does not look whether the bounds have changed
 * mutant: no_claim -DOVERWRITE                 the writer enters without claiming
 * mutant: claim_store -DOVERWRITE              it claims by a store
 * mutant: no_lap -DOVERWRITE -DRECORDS=3       it claims whatever turn the entry was claimed for
 * mutant: exchange_store -DOVERWRITE           the reader exchanges by a store
 * mutant: take_claimed -DOVERWRITE             the reader takes what was claimed for a later turn
 * mutant: no_second_look -DOVERWRITE -DCOPY    the reader accepts a copy without looking again
 * mutant: look_early -DOVERWRITE -DCOPY        it looks again before it has copied
 * mutant: look_at_head -DOVERWRITE -DCOPY      it looks at the head instead of the claim
 */

#ifndef WRITERS
#define WRITERS 2
#endif
#ifndef RECORDS
#define RECORDS 2           /* of each writer */
#endif
#ifndef SESSIONS
#define SESSIONS 1          /* attachments, one after the other */
#endif
#ifndef CELLS
#define CELLS 2             /* of a sub-buffer; a record takes one or two */
#endif
#ifndef ACTS
#define ACTS 4              /* of the pager: extends, trims, or revokes and reclaims */
#endif
#ifndef TRIES
#define TRIES 3             /* before a writer takes the shared ring */
#endif
#ifdef PAGES
#define COUNT 3             /* the one behind the head's keeps its pages: with two there would be none to take */
#else
#define COUNT 2             /* sub-buffers that take turns */
#endif
#ifdef OVERWRITE
#define SUB_BUFFERS (COUNT + 1)
#else
#define SUB_BUFFERS COUNT
#endif
#define TURNS (WRITERS * RECORDS + 1)       /* of one attachment, at most */

#define LENGTH(id) (1 + (id) % 2)

/* The head: turn, sub-buffer, cell + 1. A place is never 0, so no head is CLOSED. */
#define CLOSED 0
#define HEAD(turn, number, place) ((turn) << 5 | (number) << 3 | (place))
#define TURN(head) ((head) >> 5)
#define NUMBER(head) ((head) >> 3 & 3)
#define PLACE(head) ((head) & 7)
#define ENTERING(turn, number) HEAD(turn, number, 1)

/* An entry of the table: the turn it was claimed for last, and the sub-buffer. */
#define ENTRY(turn, number) ((turn) << 2 | (number))
#define CLAIMED_FOR(entry) ((entry) >> 2)
#define OF_ENTRY(entry) ((entry) & 3)

#define NOBODY 255
#define FIRST COUNT         /* the first turn; turns before it are those of entries nobody has claimed yet */
#ifdef MUTANT_same_turn
#define FIRST_TURN(session) FIRST
#else
#define FIRST_TURN(session) (FIRST + ((session) - 1) * (TURNS + COUNT))
#endif
#define ALL_TURNS (FIRST + SESSIONS * (TURNS + COUNT))

/* Shared memory. */
short head;
byte view;                  /* which attachment the rest of the ring's header describes; 0: none */
byte consumed;              /* turns that are less than COUNT ahead of it may be entered */
byte lost;
short table[COUNT];
byte data[SUB_BUFFERS * CELLS];
byte left_end[SUB_BUFFERS];
byte left_lost[SUB_BUFFERS];

byte running = NOBODY;      /* who is in a section and has not been restarted */

#ifdef PAGES
/* The collector's own: the oldest turn that is not given back, the first that is not open. */
byte oldest_turn, open_turn;
bit reader_publishes;
#endif

/* What the assertions compare with; no code has it. */
byte published[ALL_TURNS * CELLS];  /* the record in each cell of each turn */
byte end[ALL_TURNS];                /* cells of each turn that are published */
byte readers = NOBODY;              /* the sub-buffer that the reader has */
byte refused;                       /* records that found no room */

#ifdef STAMPS
byte clock;                         /* goes on with each publication */
byte last_stamp;
#define READ_CLOCK at = clock;
#define PUBLISH_STAMP assert(at >= last_stamp); last_stamp = at; clock++;
#else
#define READ_CLOCK
#define PUBLISH_STAMP
#endif

#define CELL(number, place) data[(number) * CELLS + (place) - 1]

#ifdef MUTANT_no_restart
#define IN_SECTION true
#else
#define IN_SECTION (running == _pid)
#endif

/* One step of a section: only if the thread still has the CPU. */
#define SECTION(...) atomic { if :: IN_SECTION -> __VA_ARGS__ :: else -> goto again fi }

inline write_cell(at, what) {
    assert(number != readers);
    CELL(number, at) = what
}

inline leave() {
    assert(NUMBER(seen) != readers);
    left_end[NUMBER(seen)] = PLACE(seen) - 1;
    left_lost[NUMBER(seen)] = known_lost
}

inline publish() {
    head = HEAD(turn, number, place + LENGTH(id));
    assert(view == looked_at || view == 0);
    PUBLISH_STAMP
    assert(end[turn] == place - 1);
    end[turn] = place - 1 + LENGTH(id);
    published[turn * CELLS + place - 1] = id;
    if
    :: LENGTH(id) == 2 -> published[turn * CELLS + place] = id
    :: else
    fi;
    running = NOBODY
}

/* So that there are fewer states: what was seen is of no use any more. */
inline forget() {
    seen = 0; entry = 0; looked_at = 0; turn = 0; number = 0; place = 0; used = 0; known_lost = 0; at = 0
}

proctype writer(byte first) {
    short seen, entry;
    byte id, tries, looked_at, turn, number, place, used, known_lost, at;
    id = first;
    do
    :: id == first + RECORDS -> break
    :: else ->
again:  atomic {
            forget();
            if
            :: tries == TRIES -> goto done  /* to the shared ring */
            :: else -> tries++
            fi
        }

#ifdef MUTANT_clock_first
        READ_CLOCK
#endif
#ifdef MUTANT_view_first
        looked_at = view;
        seen = head;
#else
        seen = head;
        looked_at = view;
#endif
        if
        :: looked_at == 0 || seen == CLOSED -> goto done
        :: else
        fi;
        turn = TURN(seen); number = NUMBER(seen); place = PLACE(seen);
        if
        :: place - 1 + LENGTH(id) <= CELLS
        :: else ->
            turn++; place = 1;
#ifdef OVERWRITE
            entry = table[turn % COUNT];
            number = OF_ENTRY(entry);
#ifndef MUTANT_no_claim
            if
            :: CLAIMED_FOR(entry) == turn
#ifdef MUTANT_no_lap
            :: CLAIMED_FOR(entry) != turn ->
#else
            :: CLAIMED_FOR(entry) == turn - COUNT ->
#endif
                atomic {
                    if
#ifdef MUTANT_claim_store
                    :: true ->
#else
                    :: table[turn % COUNT] == entry ->
#endif
                        table[turn % COUNT] = ENTRY(turn, number)
                    :: else -> goto again
                    fi
                }
#ifndef MUTANT_no_lap
            :: else -> goto again
#endif
            fi;
#endif
#else
            used = turn - consumed;
            if
#ifdef MUTANT_full_if_stale
            :: used >= COUNT ->
#elif defined(MUTANT_never_full)
            :: false ->
#elif defined(MUTANT_full_if_equal)
            :: used == COUNT ->
#else
            :: used >= COUNT && used < 128 ->
#endif
                /* Other than the turn that was seen, what was consumed may have moved on: then nothing was full. What was open may
                 * have been revoked. */
#ifdef PAGES
                assert(used >= COUNT && used < 128);
#else
                assert(used == COUNT);
#endif
#ifdef MUTANT_plain_count
                known_lost = lost;
                atomic { lost = known_lost + 1; refused++ }
#else
                atomic { lost++; refused++ }
#endif
                goto done
            :: else -> number = turn % COUNT
            fi
#endif
        fi;
        known_lost = lost;
#ifndef MUTANT_clock_first
        READ_CLOCK
#endif
#ifdef MUTANT_leave_outside
        if
        :: turn != TURN(seen) -> leave()
        :: else
        fi;
#endif
        /* Whether this thread runs on the ring's CPU, and what the section checks first. */
        if
        :: goto again
        :: running = _pid
        fi;
#ifndef MUTANT_head_not_compared
        SECTION(if :: head != seen -> running = NOBODY; goto again :: else fi);
#endif
#ifdef MUTANT_publish_first
        atomic {
            if
            :: running == _pid -> publish(); running = _pid
            :: else -> goto again
            fi
        }
#endif
#ifndef MUTANT_leave_outside
        if
        :: turn != TURN(seen) -> SECTION(leave())
        :: else
        fi;
#endif
        SECTION(write_cell(place, id));
        if
        :: LENGTH(id) == 2 -> SECTION(write_cell(place + 1, id))
        :: else
        fi;
#ifndef MUTANT_publish_first
        SECTION(publish());
#endif
done:   atomic { forget(); tries = 0; id++ }
    od
}

/* Compares a sub-buffer with what was published in its turn. */
inline check(turn, number) {
    d_step {
        i = 0;
        do
        :: i == end[turn] -> break
        :: else ->
            assert(CELL(number, i + 1) == published[turn * CELLS + i]);
            i++
        od
    }
}

inline check_left(turn, number) {
    assert(left_end[number] == end[turn]);
    assert(left_lost[number] >= lost_before);
    lost_before = left_lost[number]
}

inline close() {
    view = 0;
    head = CLOSED
}

inline open() {
    d_step {
        next = FIRST_TURN(session);
        taken = 0; overwritten = 0; lost_before = 0; lost = 0; refused = 0;
        i = 0;
        do
        :: i == ALL_TURNS -> break
        :: else -> end[i] = 0; i++
        od;
        i = 0;
        do
        :: i == COUNT -> break
        :: else ->
            table[(next + i) % COUNT] = ENTRY(next + i - (i > 0 -> COUNT : 0), (next + i) % COUNT);
            i++
        od;
        consumed = next;
#ifdef PAGES
        oldest_turn = next; open_turn = next + 1;
        consumed = open_turn - COUNT;
#endif
#ifdef OVERWRITE
        spare = COUNT; readers = spare;
#endif
    }
    view = session;
    head = ENTERING(next, next % COUNT)
}

#ifdef OVERWRITE
inline skip_overwritten() {
    oldest = TURN(seen) + 1 - COUNT;
    if
    :: next < oldest -> overwritten = overwritten + oldest - next; next = oldest
    :: else
    fi
}

inline take() {
    atomic {
        seen = head;
        skip_overwritten();
        nothing = next == TURN(seen);
        seen = 0; oldest = 0
    }
    if
    :: nothing
    :: else ->
        atomic {
            entry = table[next % COUNT];
            if
#ifndef MUTANT_take_claimed
            :: CLAIMED_FOR(entry) != next -> assert(CLAIMED_FOR(entry) > next); overwritten++; next++; entry = 0; goto looked
#endif
            :: else
            fi
        }
        atomic {
            if
#ifdef MUTANT_exchange_store
            :: true ->
#else
            :: table[next % COUNT] == entry ->
#endif
                table[next % COUNT] = ENTRY(next, spare);
                spare = OF_ENTRY(entry);
                readers = spare;
                check(next, spare);
                check_left(next, spare);
                taken++; next++
            :: else
            fi;
            entry = 0
        }
    fi;
looked: nothing = false
}

/* Copies one of the turns that the ring holds, up to the head, and takes nothing. */
inline copy() {
    atomic {
        seen = head; i = 0;
        if
        :: copied = TURN(seen)
        :: TURN(seen) > next -> copied = TURN(seen) - 1
        fi
    }
    entry = table[copied % COUNT];
    if
    :: CLAIMED_FOR(entry) == copied ->
        if
        :: copied == TURN(seen) -> until = PLACE(seen) - 1
        :: else -> until = left_end[OF_ENTRY(entry)]
        fi;
#ifdef MUTANT_look_early
        unchanged = table[copied % COUNT] == entry;
#endif
        do
        :: i == until -> break
        :: else ->
            atomic {
                is_torn = is_torn || CELL(OF_ENTRY(entry), i + 1) != published[copied * CELLS + i];
                i++
            }
        od;
        atomic {
            if
#ifdef MUTANT_no_second_look
            :: true ->
#elif defined(MUTANT_look_early)
            :: unchanged ->
#elif defined(MUTANT_look_at_head)
            :: TURN(head) < copied + COUNT ->
#else
            :: table[copied % COUNT] == entry ->
#endif
                assert(!is_torn);
                assert(copied == TURN(seen) || until == end[copied])
            :: else
            fi
        }
    :: else
    fi;
    atomic { seen = 0; entry = 0; copied = 0; until = 0; i = 0; is_torn = false; unchanged = false }
}
#else
inline take() {
    atomic { seen = head; nothing = next == TURN(seen); seen = 0 }
    if
    :: nothing
    :: else ->
        readers = next % COUNT;
#ifdef MUTANT_give_back_early
        consumed = next + 1;
#endif
        atomic { check(next, next % COUNT); check_left(next, next % COUNT) }
        atomic { readers = NOBODY; taken++; next++ }
#ifdef PAGES
        reader_publishes = 1;
        atomic {
            open_turn = (open_turn - oldest_turn == COUNT -> next + COUNT : open_turn);
            oldest_turn = next;
            publishing = open_turn
        }
        publish_bounds();
        atomic { reader_publishes = 0; publishing = 0 }
#else
        consumed = next
#endif
    fi
}
#endif

#ifdef PAGES
/* Stores what writers go by, again if the bounds have changed meanwhile. */
inline publish_bounds() {
    do
    :: true ->
        consumed = publishing - COUNT;
#ifdef MUTANT_publish_once
        break
#else
        atomic {
            if
            :: open_turn == publishing -> break
            :: else -> publishing = open_turn
            fi
        }
#endif
    od
}

/* Takes the pages of the turns from `from` up to `upto`. */
inline punch(from, upto) {
    do
    :: from == upto -> break
    :: else ->
        d_step {
            CELL(from % COUNT, 1) = 0; CELL(from % COUNT, 2) = 0;
            left_end[from % COUNT] = 0; left_lost[from % COUNT] = 0;
            from++
        }
    od
}

/* Makes the pages of the turn that comes next present: zeros, whatever its sub-buffer held. */
inline fill() {
    d_step {
        if
        :: fresh != NOBODY ->
            CELL(fresh % COUNT, 1) = 0; CELL(fresh % COUNT, 2) = 0;
            left_end[fresh % COUNT] = 0; left_lost[fresh % COUNT] = 0
        :: else
        fi
    }
}

/* While all sub-buffers have pages, the reader moves both ends on. */
inline extent() {
    atomic {
        whole = open_turn - oldest_turn == COUNT;
        if
        :: whole -> low = oldest_turn; top = open_turn
        :: else
        fi
    }
}

#define NEXT (TURN(seen) + 1)

/* So that there are fewer states. */
inline rest() {
    d_step {
        first = 0; fresh = 0; seen = 0; publishing = 0; whole = false; settled = false;
        if
        :: open_turn - oldest_turn == COUNT -> low = 0; top = 0
        :: else
        fi
    }
}

active proctype pager() {
    short seen;
    byte low, top, first, fresh, publishing;
    byte acts;
    bool whole, settled;
    head != CLOSED;
    low = oldest_turn; top = open_turn;
end_pager: do
    :: atomic { acts < ACTS -> acts++; extent() };         /* extends */
        if
        :: !whole ->
            atomic {
                fresh = NOBODY;
                if
                :: top == open_turn && top - low == COUNT -> low++; top++
                :: top == open_turn && top - low != COUNT -> fresh = top; top++
                :: else
                fi;
#ifndef MUTANT_open_first
                fill();
#endif
            }
            atomic {
                open_turn = (top - low == COUNT -> oldest_turn + COUNT : open_turn + 1);
                publishing = open_turn
            }
            publish_bounds();
#ifdef MUTANT_open_first
            fill();
#endif
        :: else
        fi;
        rest()
    :: atomic { acts < ACTS -> acts++; extent() };         /* trims */
        if
        :: !whole ->
            atomic { first = low; low = oldest_turn };
            punch(first, low)
        :: else
        fi;
        rest()
    :: atomic { acts < ACTS -> acts++; extent(); seen = head };    /* revokes, and reclaims */
#ifdef MUTANT_punch_first
        first = NEXT + 1;
        if
        :: first < top -> publishing = top; top = first; punch(first, publishing)
        :: else
        fi;
#endif
        atomic {
#ifdef MUTANT_punch_next
            first = NEXT;
#else
            first = NEXT + 1;
#endif
            if
            :: open_turn > first ->
                if
                :: open_turn - oldest_turn == COUNT -> low = oldest_turn; top = (top > open_turn -> top : open_turn)
                :: else
                fi;
                open_turn = first
            :: else
            fi;
            publishing = open_turn
        }
        publish_bounds();
#ifdef MUTANT_unsettled
        settled = true;
#else
        settled = !reader_publishes;
#endif
#ifndef MUTANT_one_look
        seen = head;
#endif
#ifdef MUTANT_punch_next
        first = open_turn;
#else
        first = (NEXT + 1 > open_turn -> NEXT + 1 : open_turn);
#endif
        if
        :: first < top && settled -> publishing = top; top = first; punch(first, publishing)
        :: else
        fi;
        rest()
    od
}
#endif

/* What the collector finds when the program is gone: in one step, since nobody writes any more. */
inline take_rest() {
    seen = head;
#ifdef OVERWRITE
    skip_overwritten();
#endif
    do
    :: next == TURN(seen) -> break
    :: else ->
        entry = table[next % COUNT];
#ifdef OVERWRITE
        if
        :: CLAIMED_FOR(entry) != next -> assert(CLAIMED_FOR(entry) > next); overwritten++
        :: else -> check(next, OF_ENTRY(entry)); check_left(next, OF_ENTRY(entry)); taken++
        fi;
#else
        check(next, next % COUNT); check_left(next, next % COUNT); taken++;
#endif
        next++
    od;
    assert(end[next] == PLACE(seen) - 1);
    check(next, NUMBER(seen));
    assert(taken + overwritten == next - FIRST_TURN(session));
    assert(lost == refused)
}

active proctype collector() {
    short seen, entry, oldest;
    byte session = 1, next, taken, overwritten, lost_before, i, spare;
#ifdef PAGES
    byte publishing;
#endif
    bool nothing;
#ifdef COPY
    byte copied, until;
    bool is_torn, unchanged;
#endif
    open();
    run writer(1);
#if WRITERS > 1
    run writer(1 + RECORDS);
#endif
#if WRITERS > 2
    run writer(1 + 2 * RECORDS);
#endif
    do
    :: take()
#ifdef COPY
    :: copy()
#endif
    :: atomic { take_rest() } -> break
    :: session < SESSIONS ->
        close();
        readers = NOBODY;
#ifndef MUTANT_slow_section
        running == NOBODY;
#endif
        /* A section that was under way has stored its head over the closed one. */
#ifndef MUTANT_closed_once
        close();
#endif
        session++;
        open()
    od
}
