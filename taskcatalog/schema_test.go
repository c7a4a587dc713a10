package taskcatalog

import (
	"strings"
	"testing"
)

func TestARefusalOfParamsSaysWhatIsMissingAndNeverWhatWasSent(t *testing.T) {
	typ, err := Latest("allocation.provision_user")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ params, says string }{
		{`{"allocation_id":"a-1"}`, "lacks username, ssh_keys"},
		{`{"allocation_id":"a-1","username":"S3CRET","ssh_keys":["S3CRET"]}`, `/username breaks the schema's "pattern"`},
	} {
		_, err := typ.DecodeParams([]byte(c.params))
		if CodeOf(err, "") != CodeBadParams || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "S3CRET") {
			t.Errorf("%s: %v, want %q", c.params, err, c.says)
		}
	}
}
