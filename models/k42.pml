/*
 * K42's scheme, in which Spin must find the corruption that the papers report (Desnoyers, Dagenais and Toupin, section 2).
 *
 * The paper says that there is one, and that small buffers and large events make it likelier, not step by step how. The steps
 * here are our reading: writers reserve by compare-and-swap on an index that wraps, write, and add to the buffer's
 * count of committed bytes; whoever enters a buffer sets its count to 0; a buffer whose count reaches its size is taken
 * for complete. Nobody looks whether a writer of the last lap is still at work.
 *
 * With -DSHORT_SLEEP no writer sleeps for a whole lap: then the scheme is right, and Spin finds nothing.
 *
 * Asserted: a buffer that is complete by its count holds what was reserved in it.
 *
 * Runs (scripts/models):
 * small: -DSHORT_SLEEP -DRECORDS=4
 * large: -DSHORT_SLEEP -DRECORDS=9
 *
 * mutant: long_sleep -DRECORDS=4               the scheme as it is
 */

#ifndef RECORDS
#define RECORDS 2           /* of each of two writers; each takes a cell */
#endif
#define CELLS 2             /* of a buffer */
#define BUFFERS 2
#define ALL (BUFFERS * CELLS)

#define CELL(at) ((at) % ALL)
#define BUFFER(at) ((at) / CELLS % BUFFERS)

byte index;                 /* counts on; CELL(index) is reserved next */
byte committed[BUFFERS];
byte data[ALL];

/* What the assertion and SHORT_SLEEP look at; no code has it. */
byte reserved[ALL];         /* the record that each cell was reserved for last */
byte unfinished[BUFFERS];   /* records that are reserved there and not committed */

#ifdef SHORT_SLEEP
#define MAY_ENTER(at) (unfinished[BUFFER(at)] == 0)
#else
#define MAY_ENTER(at) true
#endif

proctype writer(byte first) {
    byte id, at;
    id = first;
    do
    :: id == first + RECORDS -> break
    :: else ->
again:  at = index;
        /* Kinder than K42: the count is set to 0 in the same step. */
        atomic {
            if
            :: index == at && (at % CELLS != 0 || MAY_ENTER(at)) ->
                index++;
                if
                :: at % CELLS == 0 -> committed[BUFFER(at)] = 0
                :: else
                fi;
                reserved[CELL(at)] = id;
                unfinished[BUFFER(at)]++
            :: else -> goto again
            fi
        }
        data[CELL(at)] = id;
        atomic { committed[BUFFER(at)]++; unfinished[BUFFER(at)]-- }
        id++
    od
}

active proctype collector() {
    byte number, i;
    run writer(1);
    run writer(1 + RECORDS);
    do
    :: atomic {
        committed[number] == CELLS && BUFFER(index) != number ->
            i = 0;
            do
            :: i == CELLS -> break
            :: else -> assert(data[number * CELLS + i] == reserved[number * CELLS + i]); i++
            od;
            i = 0
        }
    :: number = (number + 1) % BUFFERS
    :: break
    od
}
