package nvidia

import (
	_ "embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/gpu"
)

//go:embed kernels.ptx
var source string

// thread interprets a single thread of a kernel: the few PTX instructions used by the kernels, so
// that their text is tested without a GPU. An unknown instruction or type fails the test.
type thread struct {
	params  map[string]uint64
	special map[string]uint64
	memory  []uint64 // the address of word i is 8*i
	regs    map[string]uint64
}

type instruction struct {
	label, guard, op string
	args             []string
}

var (
	labelLine = regexp.MustCompile(`^([A-Z_]+):$`)
	operation = regexp.MustCompile(`^(?:@(%\w+) )?([a-z.0-9]+)(?: (.*))?;$`)
	declared  = regexp.MustCompile(`^\.reg\s+\.(pred|u32|u64)\s+(.*);$`)
)

// kernel reads the body of an entry and checks that each register is declared with the width used
// by its instructions.
func kernel(t *testing.T, name string) (params []string, body []instruction) {
	t.Helper()
	_, rest, found := strings.Cut(source, ".visible .entry "+name+"(\n")
	if !found {
		t.Fatalf("no kernel %s", name)
	}
	head, rest, _ := strings.Cut(rest, "\n)\n{\n")
	rest, _, _ = strings.Cut(rest, "\n}")
	for _, line := range strings.Split(head, "\n") {
		p, ok := strings.CutPrefix(strings.TrimSuffix(strings.TrimSpace(line), ","), ".param .u64 ")
		if !ok {
			t.Fatalf("%s: parameter %q", name, line)
		}
		params = append(params, p)
	}
	width := map[string]string{}
	label := ""
	for _, line := range strings.Split(rest, "\n") {
		line = strings.TrimSpace(line)
		if d := declared.FindStringSubmatch(line); d != nil {
			for _, r := range strings.Split(d[2], ",") {
				width[strings.TrimSpace(r)] = d[1]
			}
			continue
		}
		if l := labelLine.FindStringSubmatch(line); l != nil {
			label = l[1]
			continue
		}
		if line == "" {
			continue
		}
		o := operation.FindStringSubmatch(line)
		if o == nil {
			t.Fatalf("%s: %q is no instruction", name, line)
		}
		in := instruction{label: label, guard: o[1], op: o[2]}
		if o[3] != "" {
			for _, a := range strings.Split(o[3], ",") {
				in.args = append(in.args, strings.TrimSpace(a))
			}
		}
		for _, a := range append(in.args, in.guard) {
			r := strings.Trim(a, "[]")
			if strings.HasPrefix(r, "%") && !strings.HasSuffix(r, ".x") && width[r] == "" {
				t.Fatalf("%s: %s is not declared", name, r)
			}
		}
		label = ""
		body = append(body, in)
	}
	return params, body
}

func (th *thread) value(a string) uint64 {
	if v, err := strconv.ParseUint(a, 0, 64); err == nil {
		return v
	}
	if v, ok := th.special[a]; ok {
		return v
	}
	v, ok := th.regs[a]
	if !ok {
		panic(fmt.Sprintf("%s is read before it is written", a))
	}
	return v
}

func truth(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func (th *thread) run(body []instruction) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	at := map[string]int{}
	for i, in := range body {
		if in.label != "" {
			at[in.label] = i
		}
	}
	word := func(address string) *uint64 {
		a := th.value(strings.Trim(address, "[]"))
		if a%8 != 0 {
			panic("an access that is not aligned")
		}
		return &th.memory[a/8]
	}
	for i := 0; ; i++ {
		in := body[i]
		if in.guard != "" && th.value(in.guard) == 0 {
			continue
		}
		two := func() (uint64, uint64) { return th.value(in.args[1]), th.value(in.args[2]) }
		switch in.op {
		case "ret":
			return nil
		case "bra":
			target, ok := at[in.args[0]]
			if !ok {
				panic("no label " + in.args[0])
			}
			i = target - 1
		case "ld.param.u64":
			th.regs[in.args[0]] = th.params[strings.Trim(in.args[1], "[]")]
		case "cvta.to.global.u64", "mov.u32", "mov.u64", "cvt.u64.u32":
			th.regs[in.args[0]] = th.value(in.args[1])
		case "mul.wide.u32":
			a, b := two()
			th.regs[in.args[0]] = uint64(uint32(a)) * uint64(uint32(b))
		case "mul.lo.u64":
			a, b := two()
			th.regs[in.args[0]] = a * b
		case "add.u64":
			a, b := two()
			th.regs[in.args[0]] = a + b
		case "xor.b64":
			a, b := two()
			th.regs[in.args[0]] = a ^ b
		case "shr.u64":
			a, b := two()
			th.regs[in.args[0]] = a >> b
		case "shl.b64":
			a, b := two()
			th.regs[in.args[0]] = a << b
		case "setp.ge.u64":
			a, b := two()
			th.regs[in.args[0]] = truth(a >= b)
		case "setp.eq.u64":
			a, b := two()
			th.regs[in.args[0]] = truth(a == b)
		case "ld.global.u64":
			th.regs[in.args[0]] = *word(in.args[1])
		case "st.global.u64":
			*word(in.args[0]) = th.value(in.args[1])
		case "red.global.add.u64":
			*word(in.args[0]) += th.value(in.args[1])
		default:
			panic("unknown instruction " + in.op)
		}
	}
}

// launch runs a kernel on a grid, thread by thread.
func launch(t *testing.T, name string, memory []uint64, grid, block uint64, args ...uint64) {
	t.Helper()
	params, body := kernel(t, name)
	if len(params) != len(args) {
		t.Fatalf("%s has %d parameters, not %d", name, len(params), len(args))
	}
	values := map[string]uint64{}
	for i, p := range params {
		values[p] = args[i]
	}
	for c := range grid {
		for i := range block {
			th := &thread{
				params: values, memory: memory, regs: map[string]uint64{},
				special: map[string]uint64{"%tid.x": i, "%ntid.x": block, "%ctaid.x": c, "%nctaid.x": grid},
			}
			if err := th.run(body); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}

func TestKernelsDoTheArithmeticOfThePattern(t *testing.T) {
	p := gpu.NewPattern([]byte("0123456789abcdef"), "GPU-0")
	const words, first, counter = 1000, 1 << 40, 1010
	for _, shape := range []struct{ grid, block uint64 }{{1, 1}, {3, 7}, {16, 256}} {
		memory := make([]uint64, 1011)
		memory[words] = 42 // after the end
		launch(t, "hostler_fill", memory, shape.grid, shape.block, 0, words, p.Lo, p.Hi, first)
		for i := range uint64(words) {
			if memory[i] != p.Word(first+i) {
				t.Fatalf("grid %v: word %d is %x, want %x", shape, i, memory[i], p.Word(first+i))
			}
		}
		if memory[words] != 42 {
			t.Errorf("grid %v wrote past the end", shape)
		}
		launch(t, "hostler_mismatches", memory, shape.grid, shape.block, 0, words, p.Lo, p.Hi, first, 8*counter)
		if memory[counter] != 0 {
			t.Errorf("grid %v: %d words differ of those just written", shape, memory[counter])
		}
		memory[0] ^= 1
		memory[words-1] = 0
		memory[words] = 7
		launch(t, "hostler_mismatches", memory, shape.grid, shape.block, 0, words, p.Lo, p.Hi, first, 8*counter)
		if memory[counter] != 2 {
			t.Errorf("grid %v: %d words differ, want 2", shape, memory[counter])
		}
	}
}

func TestTheCountingKernelCountsWordsThatAreNotZero(t *testing.T) {
	memory := make([]uint64, 200)
	memory[0], memory[99], memory[100], memory[150] = 1, 1<<63, 5, 1000
	launch(t, "hostler_nonzero", memory, 2, 16, 0, 100, 8*150)
	if memory[150] != 1002 { // adds to the counter
		t.Errorf("the counter went from 1000 to %d, want 1002", memory[150])
	}
}

// The driver accepts ASCII, and the first directive must be the version.
func TestTheTextIsWhatADriverTakes(t *testing.T) {
	for i, r := range source {
		if r >= 0x80 {
			t.Fatalf("byte %d is not ASCII", i)
		}
	}
	var directives []string
	for _, line := range strings.Split(source, "\n") {
		if strings.HasPrefix(line, ".") {
			directives = append(directives, line)
		}
	}
	want := []string{
		".version 6.0", ".target sm_50", ".address_size 64",
		".visible .entry hostler_fill(", ".visible .entry hostler_mismatches(", ".visible .entry hostler_nonzero(",
	}
	if strings.Join(directives, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q", directives)
	}
}
