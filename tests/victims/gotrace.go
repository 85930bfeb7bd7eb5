// SPDX-License-Identifier: GPL-3.0-or-later
//
// gotrace PROGRAM... - runs PROGRAM and traces it, as Go's debugger does, by system calls of its own: over its first instructions, step by step, then to its
// end. "traced, N steps, status S"
package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

const steps = 1000

func main() {
	var status syscall.WaitStatus

	runtime.LockOSThread()
	c := exec.Command(os.Args[1], os.Args[2:]...)
	c.Stdout = os.Stdout
	c.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := c.Start(); err != nil {
		fmt.Println("cannot start it:", err)
		os.Exit(1)
	}
	pid, n := c.Process.Pid, 0
	syscall.Wait4(pid, &status, 0, nil)
	for status.Stopped() && n < steps && syscall.PtraceSingleStep(pid) == nil {
		syscall.Wait4(pid, &status, 0, nil)
		n++
	}
	for status.Stopped() && syscall.PtraceCont(pid, 0) == nil {
		syscall.Wait4(pid, &status, 0, nil)
	}
	fmt.Println("traced,", n, "steps, status", status.ExitStatus())
}
