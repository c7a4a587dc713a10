package wire

import (
	"testing"

	"github.com/hostler/hostler/taskcatalog"
)

func TestReportDigestSaysWhetherANodeChanged(t *testing.T) {
	base := ReportDigest([]string{"node.drain@1", "node.uninstall@1"}, map[string]string{"weka": "4.3"}, nil, nil)
	same := ReportDigest([]string{"node.uninstall@1", "node.drain@1"}, map[string]string{"weka": "4.3"}, nil, nil)
	if base != same {
		t.Error("the order of the types changed the digest")
	}
	for name, other := range map[string]string{
		"a type less":        ReportDigest([]string{"node.drain@1"}, map[string]string{"weka": "4.3"}, nil, nil),
		"another version":    ReportDigest([]string{"node.drain@2", "node.uninstall@1"}, map[string]string{"weka": "4.3"}, nil, nil),
		"another value":      ReportDigest([]string{"node.drain@1", "node.uninstall@1"}, map[string]string{"weka": "4.4"}, nil, nil),
		"no capability":      ReportDigest([]string{"node.drain@1", "node.uninstall@1"}, nil, nil, nil),
		"a GPU more":         ReportDigest([]string{"node.drain@1", "node.uninstall@1"}, map[string]string{"weka": "4.3"}, &taskcatalog.Facts{GPUs: []taskcatalog.GPUFacts{{UUID: "u"}}}, nil),
		"another program":    ReportDigest([]string{"node.drain@1", "node.uninstall@1"}, map[string]string{"weka": "4.3"}, nil, &taskcatalog.AgentBuild{SHA256: "ab"}),
		"a key from a value": ReportDigest([]string{"node.drain@1", "node.uninstall@1"}, map[string]string{"weka4.3": ""}, nil, nil),
	} {
		if other == base {
			t.Errorf("%s: the digest stayed", name)
		}
	}
	if ReportDigest(nil, nil, nil, nil) != ReportDigest([]string{}, map[string]string{}, nil, nil) {
		t.Error("nothing and an empty list differ")
	}
}
