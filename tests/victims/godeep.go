// SPDX-License-Identifier: GPL-3.0-or-later

// godeep ROUNDS - in each round 200 goroutines that map memory by themselves, where their stacks are nearly
// used up: whoever takes more of them destroys what lies below.
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
)

//go:noinline
func deep(n int) {
	var b [64]byte
	b[n&63] = 1
	if n > 0 {
		deep(n - 1)
	} else {
		for i := 0; i < 50; i++ {
			p, err := syscall.Mmap(-1, 0, 65536, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
			if err != nil {
				panic(err)
			}
			p[0] = 1
			syscall.Munmap(p)
		}
	}
}
func main() {
	var wg sync.WaitGroup
	rounds, _ := strconv.Atoi(os.Args[1])
	for r := 0; r < rounds; r++ {
		for g := 0; g < 200; g++ {
			wg.Add(1)
			go func(k int) { deep(k % 37); wg.Done() }(g)
		}
		wg.Wait()
	}
	fmt.Println("fine")
}
