package amd_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/gpu"
)

// The kernels' source runs here as C, thread after thread.
func TestTheKernelsComputeThePattern(t *testing.T) {
	source, err := os.ReadFile("kernels.hip")
	if err != nil {
		t.Fatal(err)
	}
	p := gpu.NewPattern([]byte("nonce"), "uuid")
	dir := t.TempDir()
	harness := fmt.Sprintf(`
#define KERNEL void
#define DEVICE static
#include <stdio.h>
static struct { unsigned x; } blockIdx, threadIdx, blockDim = {3}, gridDim = {2};
static void atomicAdd(unsigned long long *to, unsigned long long n) { *to += n; }
%s
#define RUN(call) for (blockIdx.x = 0; blockIdx.x < 2; blockIdx.x++) for (threadIdx.x = 0; threadIdx.x < 3; threadIdx.x++) call
int main(void)
{
	u64 words[100], lo = %dull, hi = %dull, before = 0, differ = 0, left = 0;
	RUN(hostler_fill(words, 100, lo, hi, 1000));
	for (int i = 0; i < 100; i++) printf("%%llu\n", words[i]);
	RUN(hostler_mismatches(words, 100, lo, hi, 1000, &before));
	words[7]++, words[99]--;
	RUN(hostler_mismatches(words, 100, lo, hi, 1000, &differ));
	for (int i = 0; i < 60; i++) words[i] = 0;
	RUN(hostler_nonzero(words, 100, &left));
	printf("%%llu %%llu %%llu\n", before, differ, left);
}`, source, p.Lo, p.Hi)
	file := filepath.Join(dir, "kernels.c")
	if err := os.WriteFile(file, []byte(harness), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-Wall", "-o", file+".out", file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(file + ".out").Output()
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i := range uint64(100) {
		fmt.Fprintln(&want, p.Word(1000+i))
	}
	if want.WriteString("0 2 40\n"); string(out) != want.String() {
		t.Errorf("the kernels say\n%s\nwant\n%s", out, want.String())
	}
}
