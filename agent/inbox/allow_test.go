package inbox

import (
	"slices"
	"testing"

	"github.com/hostler/hostler/taskcatalog"
)

// A node that allows only probes can still be a member: an enrolment's tasks only read. The list is
// written out so that a new type is a probe on purpose.
func TestANodeThatAllowsProbesGivesItsBaselineAndDoesNothingElse(t *testing.T) {
	var may []string
	for _, typ := range taskcatalog.All() {
		if AllowProbe.Permits(typ.Class) {
			may = append(may, typ.Name)
		}
	}
	slices.Sort(may)
	if want := []string{"allocation.check_login", "node.diagnostics", "node.heartbeat_check", "node.task_list", "node.task_probe", "node.validate_clean"}; !slices.Equal(may, want) {
		t.Errorf("a node that allows probes does %v, want %v (add a new probe to this list)", may, want)
	}
}
