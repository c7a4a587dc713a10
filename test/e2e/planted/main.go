// Command planted is left in guests by the tests: it is the program of a container, and loads an
// eBPF program that stays in the kernel.
package main

import (
	"fmt"
	"os"
	"os/signal"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) != 3 {
		fail(fmt.Errorf("usage: planted hold FILE | pin FILE | say TEXT"))
	}
	var err error
	switch os.Args[1] {
	case "hold":
		err = hold(os.Args[2])
	case "say":
		fmt.Println(os.Args[2])
	case "pin":
		err = pin(os.Args[2])
	default:
		err = fmt.Errorf("no such thing: %s", os.Args[1])
	}
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "planted:", err)
	os.Exit(1)
}

// hold copies $SECRET to a file and runs on, ignoring SIGTERM.
func hold(file string) error {
	deaf := make(chan os.Signal, 1)
	signal.Notify(deaf, unix.SIGTERM)
	if err := os.WriteFile(file, []byte(os.Getenv("SECRET")), 0o600); err != nil {
		return err
	}
	fmt.Println(os.Getenv("SECRET"), "is in", file) // an engine stores this as the container's log
	for range deaf {
	}
	return nil
}

// pin loads an eBPF program that passes every packet, and pins it on the bpf file system, so that
// the program stays loaded.
func pin(file string) error {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "implant", Type: ebpf.SocketFilter, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()},
	})
	if err != nil {
		return err
	}
	return program.Pin(file)
}
