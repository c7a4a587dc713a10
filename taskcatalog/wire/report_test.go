package wire

import "testing"

func TestReportDigestSaysWhetherANodeChanged(t *testing.T) {
	base := ReportDigest([]string{"node.drain@1", "node.uninstall@1"}, map[string]string{"weka": "4.3"})
	same := ReportDigest([]string{"node.uninstall@1", "node.drain@1"}, map[string]string{"weka": "4.3"})
	if base != same {
		t.Error("the order of the types changed the digest")
	}
	for name, other := range map[string]string{
		"a type less":        ReportDigest([]string{"node.drain@1"}, map[string]string{"weka": "4.3"}),
		"another version":    ReportDigest([]string{"node.drain@2", "node.uninstall@1"}, map[string]string{"weka": "4.3"}),
		"another value":      ReportDigest([]string{"node.drain@1", "node.uninstall@1"}, map[string]string{"weka": "4.4"}),
		"no capability":      ReportDigest([]string{"node.drain@1", "node.uninstall@1"}, nil),
		"a key from a value": ReportDigest([]string{"node.drain@1", "node.uninstall@1"}, map[string]string{"weka4.3": ""}),
	} {
		if other == base {
			t.Errorf("%s: the digest stayed", name)
		}
	}
	if ReportDigest(nil, nil) != ReportDigest([]string{}, map[string]string{}) {
		t.Error("nothing and an empty list differ")
	}
}
