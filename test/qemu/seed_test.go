package qemu

import (
	"net/url"
	"strings"
	"testing"
)

// The kernel takes 2048 bytes, and breaks its command line at spaces; cloud-init
// undoes the escapes.
func TestACommandLineThatNamesASeedIsShortAndWhole(t *testing.T) {
	words := strings.Fields(seededFrom("http://10.0.2.2:65535/MAAS/nocloud/abcdef/", overlayTar, rootfsTar))
	if n := len(strings.Join(words, " ")); n > 1500 {
		t.Errorf("it is %d bytes", n)
	}
	if len(words) != 3 || words[0] != "ds=nocloud-net;s=http://10.0.2.2:65535/MAAS/nocloud/abcdef/" || words[2] != "end_cc" {
		t.Fatalf("it is %q", words)
	}
	text, err := url.PathUnescape(strings.TrimPrefix(words[1], "cc:"))
	if err != nil || !strings.Contains(text, `["cloud-init-per","once","overlay","tar","-C","/","-xf","/mnt/overlay.tar"]`) || !strings.Contains(text, `"ssh_deletekeys":false`) {
		t.Errorf("%v: %s", err, text)
	}
}
