//go:build unix && !linux

package child

import "syscall"

func dieWithUs(*syscall.SysProcAttr) {}
