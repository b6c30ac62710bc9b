/*
 * The shared ring: reserve by compare-and-swap, write, mark, commit (crates/recording/ring/src/commit.rs).
 *
 * Models: writers on any CPU; the end of a sub-buffer, its words and its unused end; the reader that takes and gives back,
 * or with -DOVERWRITE exchanges its spare against the oldest sub-buffer; salvage when the program is gone.
 *
 * A signal handler that writes while it interrupts a writer is a writer that happens to finish before the other goes on.
 * A writer that is killed, or sleeps for ever, is one that makes no more steps: nobody waits for it, and the collector may
 * look for the last time in any state.
 *
 * With -DPAGES, sub-buffers get memory, and idle rings give it back (read/room.rs, control/pager.rs), as in publisher.pml: the
 * reader and the pager change the bounds of what is open, and publish them. What is taken back reads as zeros, and a writer
 * that comes there all the same gets other memory. Writers count themselves, and pages are taken only when none is at work.
 * The pager's load of the head is relaxed, and may return any head since the last one that the pager knows: in a model
 * without that, the order of the two looks would not matter.
 *
 * Asserted: a sub-buffer that the reader has is never written to; what it reads are the records that were reserved, each once,
 * whole and in order, stamps not decreasing; salvage finds the records that were marked, those and no others; a record is
 * lost only when the ring is full or its next sub-buffer unfinished, and is counted; each sub-buffer is either taken or
 * counted as overwritten; when all writers are done, every sub-buffer that was left is complete; with -DBOUNDED, a
 * writer tries again only as often as somebody else made progress.
 *
 * Left out: weak memory (loom's part) but for that load, records too large, turns and counts beyond their width (but for
 * the uses', which is two bits here), the bound on tries, attaching and detaching (control.pml), what a hostile program
 * does. A sub-buffer is a few cells; a record takes one or two, one store each.
 *
 * Runs (scripts/models):
 * small: -DBOUNDED
 * small: -DOVERWRITE
 * small: -DRECORDS=3
 * small: -DWRITERS=3 -DRECORDS=1 -DOVERWRITE
 * small: -DPAGES -DWRITERS=1 -DRECORDS=4 -DACTS=3
 * small: -DPAGES -DRECORDS=2 -DACTS=2
 * large: -DPAGES -DWRITERS=1 -DRECORDS=5
 * large: -DPAGES -DRECORDS=2 -DACTS=3
 * large: -DBOUNDED -DRECORDS=3
 * large: -DBOUNDED -DOVERWRITE
 * large: -DRECORDS=3 -DOVERWRITE
 * large: -DWRITERS=3
 * large: -DWRITERS=3 -DRECORDS=1 -DOVERWRITE -DBOUNDED
 *
 * mutant: reserve_store                        reserved by a store
 * mutant: clock_first                          the clock is read before the head
 * mutant: exact_fit                            a record may end with the sub-buffer's last byte
 * mutant: commit_first                         committed before the record is written
 * mutant: mark_first                           marked before the record is written
 * mutant: mark_store                           marked by a load and a store
 * mutant: marks_kept                           marks of an earlier turn are kept
 * mutant: plain_commit                         committed by a load and a store
 * mutant: commit_before_left                   the unused end is committed before what is left behind is stored
 * mutant: end_not_committed                    the unused end is not committed
 * mutant: never_full                           nobody looks what the reader has given back
 * mutant: full_if_stale                        a head that is no longer true can make the ring full
 * mutant: plain_count                          losses are counted by a load and a store
 * mutant: wait_if_full -DBOUNDED               the writer waits for the reader
 * mutant: take_unfinished                      the reader takes what is not complete
 * mutant: give_back_early                      the reader gives back before it has read
 * mutant: full_if_equal -DPAGES -DWRITERS=1 -DRECORDS=4 -DACTS=3  a writer that is beyond what is open takes the ring for free
 * mutant: open_first -DPAGES -DWRITERS=1 -DRECORDS=4 -DACTS=3  a sub-buffer is opened before its pages are present
 * mutant: punch_first -DPAGES -DWRITERS=1 -DRECORDS=4 -DACTS=3  pages are taken before what they are of is closed
 * mutant: punch_next -DPAGES -DWRITERS=1 -DRECORDS=4 -DACTS=3  pages of the sub-buffer behind the head are taken
 * mutant: one_look -DPAGES -DWRITERS=1 -DRECORDS=4 -DACTS=3  the head is not looked at again before pages are taken
 * mutant: unsettled -DPAGES -DWRITERS=1 -DRECORDS=4 -DACTS=3  pages are taken while the reader may still publish older bounds
 * mutant: publish_once -DPAGES -DWRITERS=1 -DRECORDS=4 -DACTS=3  who publishes does not look whether the bounds have changed
 * mutant: head_first -DPAGES -DWRITERS=1 -DRECORDS=4 -DACTS=3  the pager loads the head before it looks for writers
 * mutant: writers_ignored -DPAGES -DWRITERS=1 -DRECORDS=4 -DACTS=3  pages are taken while writers may be at work
 * mutant: no_claim -DOVERWRITE                 the writer enters without claiming
 * mutant: claim_store -DOVERWRITE              it claims by a store
 * mutant: claim_unfinished -DOVERWRITE         it claims what is not complete
 * mutant: unfinished_if_stale -DOVERWRITE      an entry that is no longer true can make it lose the record
 * mutant: no_lap -DOVERWRITE -DRECORDS=4       it claims whatever turn the entry was claimed for
 * mutant: exchange_store -DOVERWRITE           the reader exchanges by a store
 * mutant: take_claimed -DOVERWRITE             the reader takes what was claimed for a later turn
 */

#ifndef WRITERS
#define WRITERS 2
#endif
#ifndef RECORDS
#define RECORDS 2           /* of each writer */
#endif
#ifndef ACTS
#define ACTS 4              /* of the pager: extends, trims, or revokes and reclaims */
#endif
#ifndef CELLS
#define CELLS 3             /* of a sub-buffer; a record takes one or two, and none takes the last */
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
#define TURNS (WRITERS * RECORDS + 1)       /* at most */

#define LENGTH(id) (1 + (id) % 2)

/* The head: turn, sub-buffer, cell. */
#define HEAD(turn, number, place) ((turn) << 5 | (number) << 3 | (place))
#define TURN(head) ((head) >> 5)
#define NUMBER(head) ((head) >> 3 & 3)
#define PLACE(head) ((head) & 7)

/* An entry of the table: the turn it was claimed for last, the sub-buffer and how often that was claimed, modulo 4. */
#define ENTRY(turn, uses, number) ((turn) << 4 | ((uses) & 3) << 2 | (number))
#define CLAIMED_FOR(entry) ((entry) >> 4)
#define USES(entry) ((entry) >> 2 & 3)
#define OF_ENTRY(entry) ((entry) & 3)
#define COMPLETE(number, uses) (committed[number] % CELLS == 0 && (committed[number] / CELLS & 3) == ((uses) & 3))

/* The marks of one sub-buffer: a turn, and a bit for each cell that a record of this turn begins in. */
#define MARKS(turn, bits) ((turn) << 4 | (bits))
#define MARKED_IN(marks) ((marks) >> 4)
#define BITS(marks) ((marks) & 15)

#define NOBODY 255
#define FIRST COUNT         /* the first turn; turns before it are those of entries nobody has claimed yet */
#define ALL_TURNS (FIRST + TURNS)

/* Shared memory. */
short head = HEAD(FIRST, FIRST % COUNT, 0);
#ifdef PAGES
byte consumed = FIRST + 1 - COUNT;
byte at_work;               /* writers that have begun and are not done */
#else
byte consumed = FIRST;
#endif
byte lost;
short table[COUNT];
byte data[SUB_BUFFERS * CELLS];
byte left_end[SUB_BUFFERS];
byte committed[SUB_BUFFERS];
short marks[SUB_BUFFERS];

#ifdef PAGES
/* The collector's own: the oldest turn that is not given back, the first that is not open. */
byte oldest_turn = FIRST, open_turn = FIRST + 1;
bit reader_publishes;
#endif

/* What the assertions compare with; no code has it. */
#ifdef PAGES
byte stored = FIRST;                /* the last turn that a writer entered that has finished its record */
#endif
byte reserved[ALL_TURNS * CELLS];   /* the record in each cell of each turn */
byte end[ALL_TURNS];                /* cells of each turn that are reserved */
bit is_marked[WRITERS * RECORDS + 1];
byte readers = NOBODY;              /* the sub-buffer that the reader has */
byte refused;                       /* records that found no room */
byte clock;                         /* a clock that goes on with each reservation */
byte last_stamp;
#ifdef BOUNDED
byte progress;                      /* steps that can make others try again */
#define PROGRESS progress++
#define FAILED failures++; assert(failures <= progress - before)
#else
#define PROGRESS skip
#define FAILED skip
#endif
byte done;                          /* writers that are done */

#define CELL(number, place) data[(number) * CELLS + (place)]

inline write_cell(place, what) {
    atomic {
        assert(number != readers);
        CELL(number, place) = what
    }
}

inline lose() {
#ifdef MUTANT_plain_count
    now = lost;
    atomic { lost = now + 1; refused++ }
#else
    atomic { lost++; refused++ }
#endif
    goto next
}

inline again_or_fail() {
    atomic {
        FAILED;
        goto again
    }
}

inline commit(number, cells) {
#ifdef MUTANT_plain_commit
    now = committed[number];
    committed[number] = now + cells
#else
    committed[number] = committed[number] + cells
#endif
}

/* Only whoever left the sub-buffer of `seen`. */
inline leave() {
#ifdef MUTANT_commit_before_left
    commit(NUMBER(seen), CELLS - PLACE(seen));
#endif
    atomic {
        assert(NUMBER(seen) != readers);
        left_end[NUMBER(seen)] = PLACE(seen)
    }
#ifdef MUTANT_end_not_committed
#elif !defined(MUTANT_commit_before_left)
    commit(NUMBER(seen), CELLS - PLACE(seen))
#endif
}

inline mark() {
    now = marks[number];
    do
    :: atomic {
        if
#ifdef MUTANT_mark_store
        :: true ->
#else
        :: marks[number] == now ->
#endif
#ifdef MUTANT_marks_kept
            marks[number] = MARKS(turn, BITS(now) | 1 << place);
#else
            marks[number] = MARKS(turn, (MARKED_IN(now) == turn -> BITS(now) : 0) | 1 << place);
#endif
            is_marked[id] = 1;
            PROGRESS;
            break
        :: else ->
            FAILED;
            now = marks[number]
        fi
    }
    od
}

proctype writer(byte first) {
    short seen, entry, now;
    byte id, turn, number, place, used, at;
#ifdef BOUNDED
    byte before, failures;
#endif
    id = first;
    do
    :: id == first + RECORDS -> break
    :: else ->
#ifdef BOUNDED
        before = progress;
#endif
#ifdef PAGES
        at_work++;
#endif
again:  skip;
        /* Fewer states: what was seen before is of no use any more. */
        d_step { seen = 0; entry = 0; now = 0; turn = 0; number = 0; place = 0; used = 0; at = 0 }
#ifdef MUTANT_clock_first
        at = clock;
#endif
        seen = head;
        turn = TURN(seen); number = NUMBER(seen); place = PLACE(seen);
        if
#ifdef MUTANT_exact_fit
        :: place + LENGTH(id) <= CELLS
#else
        :: place + LENGTH(id) < CELLS
#endif
        :: else ->
            turn++; place = 0;
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
#ifndef MUTANT_claim_unfinished
                if
                :: COMPLETE(number, USES(entry))
                :: else ->
#ifdef MUTANT_unfinished_if_stale
                    assert(table[turn % COUNT] == entry);
#else
                    if
                    :: table[turn % COUNT] == entry
                    :: else -> again_or_fail()
                    fi;
#endif
                    lose()
                fi;
#endif
                atomic {
                    if
#ifdef MUTANT_claim_store
                    :: true ->
#else
                    :: table[turn % COUNT] == entry ->
#endif
                        table[turn % COUNT] = ENTRY(turn, USES(entry) + 1, number);
                        PROGRESS
                    :: else -> again_or_fail()
                    fi
                }
#ifndef MUTANT_no_lap
            :: else -> again_or_fail()
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
#elif defined(PAGES) && !defined(MUTANT_full_if_equal)
            :: used >= COUNT && used < 128 ->
#else
            :: used == COUNT ->
#endif
#ifdef MUTANT_wait_if_full
                again_or_fail();
#endif
                /* Other than the turn that was seen, what was consumed may have moved on: then nothing was full. With
                 * pages, what was open may have been revoked. */
#ifndef PAGES
                assert(used == COUNT);
#endif
                lose()
            :: else -> number = turn % COUNT
            fi
#endif
        fi;
#ifndef MUTANT_clock_first
        at = clock;
#endif
        atomic {
            if
#ifdef MUTANT_reserve_store
            :: true ->
#else
            :: head == seen ->
#endif
                head = HEAD(turn, number, place + LENGTH(id));
                assert(end[turn] == place);
                end[turn] = place + LENGTH(id);
                reserved[turn * CELLS + place] = id;
                if
                :: LENGTH(id) == 2 -> reserved[turn * CELLS + place + 1] = id
                :: else
                fi;
                assert(at >= last_stamp);
                last_stamp = at;
                clock++;
                PROGRESS
            :: else -> again_or_fail()
            fi
        }
        if
        :: turn != TURN(seen) -> leave()
        :: else
        fi;
#ifdef MUTANT_mark_first
        mark();
#endif
#ifdef MUTANT_commit_first
        commit(number, LENGTH(id));
#endif
        write_cell(place, id);
        if
        :: LENGTH(id) == 2 -> write_cell(place + 1, id)
        :: else
        fi;
#ifndef MUTANT_mark_first
        mark();
#endif
#ifndef MUTANT_commit_first
        commit(number, LENGTH(id));
#endif
#ifdef PAGES
        stored = (turn > stored -> turn : stored);
#endif
next:   skip;
#ifdef PAGES
        at_work--;
#endif
        d_step { seen = 0; entry = 0; now = 0; turn = 0; number = 0; place = 0; used = 0; at = 0; id++ };
#ifdef BOUNDED
        d_step { before = 0; failures = 0 }
#endif
    od;
    done++
}

/* Compares a complete sub-buffer with what was reserved in its turn. */
inline check(turn, number) {
    d_step {
        assert(left_end[number] == end[turn]);
        i = 0;
        do
        :: i == end[turn] -> break
        :: else ->
            assert(CELL(number, i) == reserved[turn * CELLS + i]);
            i++
        od
    }
}

/* What the marks say of an unfinished sub-buffer, of which `end[turn]` cells are reserved. */
inline salvage(turn, number) {
    i = 0;
    do
    :: i == end[turn] -> break
    :: else ->
        id = reserved[turn * CELLS + i];
        found = MARKED_IN(marks[number]) == turn && (BITS(marks[number]) >> i & 1);
        assert(found == is_marked[id]);
        assert(!found || CELL(number, i) == id);
        assert(!found || LENGTH(id) == 1 || CELL(number, i + 1) == id);
        i = i + LENGTH(id)
    od;
    found = 0; id = 0
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
    seen = head;
    skip_overwritten();
    if
    :: next == TURN(seen)
    :: else ->
        entry = table[next % COUNT];
        if
#ifndef MUTANT_take_claimed
        :: CLAIMED_FOR(entry) != next -> assert(CLAIMED_FOR(entry) > next); overwritten++; next++
#endif
#ifndef MUTANT_take_unfinished
        :: CLAIMED_FOR(entry) == next && !COMPLETE(OF_ENTRY(entry), USES(entry))
#endif
        :: else ->
            atomic {
                if
#ifdef MUTANT_exchange_store
                :: true ->
#else
                :: table[next % COUNT] == entry ->
#endif
                    table[next % COUNT] = ENTRY(next, spare_uses, spare);
                    PROGRESS;
                    spare = OF_ENTRY(entry);
                    spare_uses = USES(entry);
                    readers = spare;
                    check(next, spare);
                    taken++; next++
                :: else
                fi
            }
        fi
    fi
}
#else
inline take() {
    seen = head;
    if
    :: next == TURN(seen)
#ifndef MUTANT_take_unfinished
    :: next != TURN(seen) && !COMPLETE(next % COUNT, (next - FIRST) / COUNT + 1)
#endif
    :: else ->
        readers = next % COUNT;
#ifdef MUTANT_give_back_early
        consumed = next + 1;
#endif
        check(next, next % COUNT);
        atomic { readers = NOBODY; taken++; next++ }
#ifdef PAGES
        reader_publishes = 1;
        atomic {
            if
            :: open_turn - oldest_turn == COUNT -> open_turn = next + COUNT
            :: open_turn - oldest_turn != COUNT && next > open_turn -> open_turn = next
            :: else
            fi;
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

/* Zeros, whatever the sub-buffer of this turn held. The commit words and the marks keep their pages. */
inline clear(turn) {
    CELL(turn % COUNT, 0) = 0; CELL(turn % COUNT, 1) = 0; CELL(turn % COUNT, 2) = 0;
    left_end[turn % COUNT] = 0
}

/* Takes the pages of the turns from `from` up to `upto`. */
inline punch(from, upto) {
    do
    :: from == upto -> break
    :: else -> d_step { clear(from); from++ }
    od
}

/* Makes the pages of the turn that comes next present. */
inline fill() {
    d_step {
        if
        :: fresh != NOBODY -> clear(fresh)
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

/* Loads the head's turn: any since `known`, but none before what the reader has read. */
inline look() {
    atomic {
        seen = (known > oldest_turn -> known : oldest_turn);
        do
        :: seen < TURN(head) -> seen++
        :: break
        od;
        known = seen
    }
}

/* Goes on only if no writer is at work: then the pager knows the heads of those that were. */
inline look_for_writers() {
#ifdef MUTANT_writers_ignored
    skip
#else
    atomic {
        if
        :: at_work == 0 -> known = stored
        :: else -> goto given_up
        fi
    }
#endif
}

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
    byte low = FIRST, top = FIRST + 1, first, fresh, publishing, seen, known = FIRST;
    byte acts;
    bool whole, settled;
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
    :: atomic { acts < ACTS -> acts++; extent() };         /* revokes, and reclaims */
        look();
#ifdef MUTANT_punch_first
        first = seen + 2;
        if
        :: first < top -> publishing = top; top = first; punch(first, publishing)
        :: else
        fi;
#endif
        atomic {
#ifdef MUTANT_punch_next
            first = seen + 1;
#else
            first = seen + 2;
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
#ifdef MUTANT_head_first
        look();
        look_for_writers();
#else
        look_for_writers();
#ifndef MUTANT_one_look
        look();
#endif
#endif
#ifdef MUTANT_punch_next
        first = open_turn;
#else
        first = (seen + 2 > open_turn -> seen + 2 : open_turn);
#endif
        if
        :: first < top && settled -> publishing = top; top = first; punch(first, publishing)
        :: else
        fi;
given_up:
        rest()
    od
}
#endif

/* What the collector finds when the program is gone: in one step, since nobody writes any more. */
inline take_rest() {
    atomic {
        seen = head;
#ifdef OVERWRITE
        skip_overwritten();
#endif
        do
        :: next > TURN(seen) -> break
        :: else ->
#ifdef OVERWRITE
            entry = table[next % COUNT];
#else
            entry = ENTRY(next, (next - FIRST) / COUNT + 1, next % COUNT);
#endif
            if
            :: CLAIMED_FOR(entry) != next -> assert(CLAIMED_FOR(entry) > next); overwritten++
            :: else ->
                if
                :: next < TURN(seen) && COMPLETE(OF_ENTRY(entry), USES(entry)) -> check(next, OF_ENTRY(entry))
                :: else -> assert(next == TURN(seen) || done < WRITERS)
                fi;
                salvage(next, OF_ENTRY(entry));
                taken++
            fi;
            next++
        od;
        assert(taken + overwritten == next - FIRST);
        assert(lost == refused)
    }
}

active proctype collector() {
    short seen, entry, oldest;
    byte next = FIRST, taken, overwritten, i, spare = COUNT, spare_uses, id;
    bit found;
#ifdef PAGES
    byte publishing;
#endif
    d_step {
        do
        :: i == COUNT -> break
        :: else ->
            table[(FIRST + i) % COUNT] = ENTRY(FIRST + i - (i > 0 -> COUNT : 0), i == 0, (FIRST + i) % COUNT);
            i++
        od;
        i = 0;
#ifdef OVERWRITE
        readers = spare
#endif
    }
    run writer(1);
#if WRITERS > 1
    run writer(1 + RECORDS);
#endif
#if WRITERS > 2
    run writer(1 + 2 * RECORDS);
#endif
    do
    :: take()
    :: take_rest() -> break
    od
}
