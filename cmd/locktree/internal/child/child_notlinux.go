//go:build unix && !linux

package child

import "syscall"

func dieWithUs(*syscall.SysProcAttr) {}

func (*Process) gather() bool { return false }

func (*Process) signalScattered(syscall.Signal) {}
