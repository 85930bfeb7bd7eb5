// SPDX-License-Identifier: GPL-3.0-or-later

// gomaps - a Go program whose own list of mappings says what it has: main keeps blocks by inner(), goroutines by worker().
//
//	gomaps MEGABYTES GOROUTINES [stay]
//
// Prints `anonymous BYTES`: its writable mappings without a file, less stack and heap of the kernel's; with `stay` it reads a line before it ends.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

type block struct {
	next *block
	fill [1 << 10]byte
}

var (
	kept [64]*block
)

//go:noinline
func inner(slot, blocks int) {
	for i := 0; i < blocks; i++ {
		kept[slot] = &block{next: kept[slot]}
	}
}

//go:noinline
func middle(slot, blocks int) { inner(slot, blocks) }

//go:noinline
func worker(slot, blocks int) { middle(slot, blocks) }

func anonymous() (bytes uint64) {
	text, _ := os.ReadFile("/proc/self/maps")
	for _, line := range strings.Split(string(text), "\n") {
		f := strings.Fields(line)
		if len(f) != 5 || f[1][1] != 'w' {
			continue
		}
		ends := strings.Split(f[0], "-")
		lo, _ := strconv.ParseUint(ends[0], 16, 64)
		hi, _ := strconv.ParseUint(ends[1], 16, 64)
		bytes += hi - lo
	}
	return
}

func main() {
	megabytes, _ := strconv.Atoi(os.Args[1])
	n, _ := strconv.Atoi(os.Args[2])
	input := bufio.NewReader(os.Stdin)
	if len(os.Args) > 3 {
		fmt.Println("ready")
		input.ReadString('\n')
	}
	blocks := megabytes << 10
	if n == 0 {
		middle(0, blocks)
	}
	var all sync.WaitGroup
	for i := 0; i < n; i++ {
		all.Add(1)
		go func(slot int) {
			worker(slot, blocks/n)
			all.Done()
		}(i)
	}
	all.Wait()
	fmt.Println("anonymous", anonymous())
	if len(os.Args) > 3 {
		input.ReadString('\n')
	}
}
