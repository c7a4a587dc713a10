package turnover_test

import (
	"testing"

	"github.com/hostler/hostler/broker/turnover"
)

// Other releases stored these texts, and a broker compares them with its own: with another text a
// node that a cancelled run left behind would get no reimage.
func TestTextsThatAreComparedWithStoredOnesNeverChange(t *testing.T) {
	for got, want := range map[string]string{
		turnover.SilentCancelReason:     "the agent did not answer the drain, and the policy has the node reimaged (reimage_when_silent)",
		turnover.CancelledReason("r-1"): "its turnover was cancelled (run r-1): it is owed another",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
