package child

import "syscall"

// dieWithUs has the command killed when we are: the lock goes with our session then.
func dieWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
