package client_test

import "syscall"

var ownGroup = &syscall.SysProcAttr{Setpgid: true}

func killGroup(pid int) { syscall.Kill(-pid, syscall.SIGKILL) }
