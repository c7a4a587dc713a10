package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// begun is a terminal of a line of shell, without any link.
func begun(t *testing.T, line string) (*terminal, context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	x, err := open("bash", "-c", line)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.close)
	if err := x.begun(ctx); err != nil {
		t.Fatal(err)
	}
	return x, ctx
}

func TestAKeyTakesUntilItIsSeen(t *testing.T) {
	// Three keys are held back, and shown at once.
	x, ctx := begun(t, `stty raw -echo; printf 'ready\r\n'; held=$(head -c 3); printf %s "$held"; exec cat`)
	const pace = 20 * time.Millisecond
	took, err := x.echoes(ctx, 5, pace)
	if err != nil {
		t.Fatal(err)
	}
	if took[0] < pace || took[0] <= took[1] || took[1] <= took[2] || slices.Min(took) <= 0 {
		t.Errorf("the keys took %s", took)
	}
	if more, err := x.echoes(ctx, 3, pace); err != nil || len(more) != 3 || slices.Min(more) <= 0 {
		t.Errorf("and then %s (%v)", more, err)
	}
}

func TestWhatIsSeenIsWhatWasTyped(t *testing.T) {
	for line, want := range map[string]string{
		`stty raw -echo; printf 'ready\r\n'; typed=$(head -c 3); printf xbc; exec cat`:    `shows "xbc" for "abc"`,
		`stty raw -echo; printf 'ready\r\n'; typed=$(head -c 3); printf aabbcc; exec cat`: `shows "aabbcc" for "abc"`,
		`stty raw -echo; printf 'ready\r\n'; exec head -c 2`:                              "ended",
	} {
		x, ctx := begun(t, line)
		if took, err := x.echoes(ctx, 3, time.Millisecond); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s (%v), want %q", line, took, err, want)
		}
	}
}

func TestOutputIsCountedOnlyWhereItIsTheText(t *testing.T) {
	text := []byte(strings.Repeat("all of this\r\n", 1000))
	x, ctx := begun(t, "echo ready; for i in {1..1000}; do echo all of this; done")
	if rate, err := x.rate(ctx, text); err != nil || rate <= 0 {
		t.Errorf("%f (%v)", rate, err)
	}
	x, ctx = begun(t, "echo ready; for i in {1..1000}; do echo all or this; done")
	if rate, err := x.rate(ctx, text); err == nil {
		t.Errorf("another text came at %f", rate)
	}
	x, ctx = begun(t, "echo ready; for i in {1..999}; do echo all of this; done")
	if rate, err := x.rate(ctx, text); err == nil {
		t.Errorf("less than all came at %f", rate)
	}
}

func TestQuantilesAreValuesThatWereMeasured(t *testing.T) {
	var values []int
	for i := range 600 {
		values = append(values, i+1)
	}
	for q, want := range map[float64]int{0: 1, 0.5: 300, 0.99: 594, 1: 600} {
		if got := quantile(values, q); got != want {
			t.Errorf("%g: %d, want %d", q, got, want)
		}
	}
	if got := quantile(values[:1], 0.99); got != 1 {
		t.Errorf("of one: %d", got)
	}
}
