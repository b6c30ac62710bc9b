// Workers that compute, sleep, yield, and wait for each other, with an execution trace of them.
//
//	workers FILE WORKERS ROUNDS         the trace of the whole program
//	workers FILE WORKERS ROUNDS flight  a snapshot of the flight recorder, taken while the workers live
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/trace"
	"strconv"
	"sync"
	"time"
)

// work computes for some time, which the compiler can't remove.
func work(rounds int) (sum int) {
	for i := range rounds {
		sum = sum*31 + i
	}
	return sum
}

func worker(in <-chan int, out chan<- int) {
	for value := range in {
		value += work(200_000) & 1
		runtime.Gosched()
		time.Sleep(100 * time.Microsecond)
		out <- value + 1
	}
	close(out)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "workers:", err)
		os.Exit(1)
	}
}

func main() {
	if len(os.Args) < 4 {
		check(fmt.Errorf("usage: workers FILE WORKERS ROUNDS [flight]"))
	}
	file, err := os.Create(os.Args[1])
	check(err)
	count, err := strconv.Atoi(os.Args[2])
	check(err)
	rounds, err := strconv.Atoi(os.Args[3])
	check(err)
	var flight *trace.FlightRecorder
	if len(os.Args) > 4 {
		flight = trace.NewFlightRecorder(trace.FlightRecorderConfig{})
		check(flight.Start())
	} else {
		check(trace.Start(file))
	}

	// A chain of workers, each of which takes values from the one before it.
	first := make(chan int)
	last := first
	for range count {
		next := make(chan int)
		go worker(last, next)
		last = next
	}
	var group sync.WaitGroup
	group.Go(func() {
		for range rounds {
			first <- 0
		}
		if flight != nil {
			_, err := flight.WriteTo(file)
			check(err)
			flight.Stop()
		}
		close(first)
	})
	values := 0
	for range last {
		values++
	}
	group.Wait()
	if flight == nil {
		trace.Stop()
	}
	check(file.Close())
	fmt.Println(os.Getpid(), count, values)
}
