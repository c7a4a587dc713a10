package adminapi_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/server/servertest"
)

// byOtherNames are the items of lists that have no id of their own: what names each.
var byOtherNames = map[string]string{
	"AgentLifecycle": "node_id", "AgentRelease": "digest", "AllocationTimelineEvent": "at", "Archive": "task_id", "Cluster": "name", "Drift": "hostname",
	"ExpiryItem": "name", "NodeCertificate": "serial", "OperationPolicy": "operation", "Quota": "sku", "RegistryCredential": "registry", "ResolverSet": "digest", "SourceCredential": "name", "ArtifactSigner": "name",
	"ResolverWant": "selector", "TaskType": "name", "TimelineEvent": "at", "Token": "name", "Usage": "allocation_id",
}

// TestWhatHasAnIDCallsItID holds the one name of ids against the description: a thing's own id is id, and
// node_id, run_id and the like point to another thing.
func TestWhatHasAnIDCallsItID(t *testing.T) {
	b := servertest.Start(t)
	type property struct {
		Items struct {
			Ref string `json:"$ref"`
		}
	}
	var spec struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]property }
		}
	}
	a := b.Ask(t, "", http.MethodGet, b.OperatorURL()+"/openapi.json", nil)
	if err := json.Unmarshal(a.Body, &spec); err != nil {
		t.Fatal(err)
	}
	word := regexp.MustCompile(`[A-Z]+[a-z0-9]*`)
	for name, s := range spec.Components.Schemas {
		words := strings.ToLower(strings.Join(word.FindAllString(strings.TrimSuffix(name, "Detail"), -1), "_"))
		if _, found := s.Properties[words+"_id"]; found {
			t.Errorf("%s calls its own id %s_id, not id", name, words)
		}
		item := strings.TrimPrefix(s.Properties["items"].Items.Ref, "#/components/schemas/")
		if item == "" || item == "RoCEItem" || item == "NodePlace" || item == "RepairAdd" { // what a request brings
			continue
		}
		want := "id"
		if other, known := byOtherNames[item]; known {
			want = other
		}
		if _, found := spec.Components.Schemas[item].Properties[want]; !found {
			t.Errorf("the items of %s, %s, have no %s", name, item, want)
		}
	}
}
