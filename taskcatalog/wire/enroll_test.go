package wire

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// The agents that are out there read these very members.
func TestAnEnrollReplyOnTheWire(t *testing.T) {
	reply := EnrollReply{
		NodeID: "n-aaaaaaaaaaaaaaaa", NodeEpoch: 2, Certificate: "PEM", TrustBundle: "{}",
		Now: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC),
	}
	const plain = `{"node_id":"n-aaaaaaaaaaaaaaaa","node_epoch":2,"certificate":"PEM","trust_bundle":"{}","now":"2026-07-01T12:00:00Z"}`
	carrying := reply
	carrying.ResolverConfig = &CarriedTask{TaskID: "t-1", Envelope: `{"payload":""}`}
	for want, r := range map[string]EnrollReply{
		plain: reply,
		strings.TrimSuffix(plain, "}") + `,"resolver_config":{"task_id":"t-1","envelope":"{\"payload\":\"\"}"}}`: carrying,
	} {
		raw, err := taskcatalog.Encode(r)
		if err != nil || string(raw) != want {
			t.Errorf("%s (%v), want %s", raw, err, want)
		}
		var back EnrollReply
		if err := Decode(bytes.NewReader(raw), &back); err != nil {
			t.Fatal(err)
		}
		if (back.ResolverConfig == nil) != (r.ResolverConfig == nil) || back.ResolverConfig != nil && *back.ResolverConfig != *r.ResolverConfig {
			t.Errorf("read as %+v", back.ResolverConfig)
		}
	}
	// What is not known is refused, here as anywhere.
	unknown := strings.Replace(plain, `"now"`, `"resolver_config":{"task_id":"t-1","envelope":"","argv":["sh"]},"now"`, 1)
	if err := Decode(strings.NewReader(unknown), new(EnrollReply)); taskcatalog.CodeOf(err, "") != taskcatalog.CodeMalformed {
		t.Errorf("an unknown member: %v", err)
	}
}
