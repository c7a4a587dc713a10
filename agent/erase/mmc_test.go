package erase

import (
	"path/filepath"
	"testing"

	"github.com/hostler/hostler/agent/erase/erasetest"
	"github.com/hostler/hostler/taskcatalog"
)

// An eMMC's boot areas have the eMMC's serial, and do not block the erase.
func TestAnEMMCIsErasedByItsSerialBesideItsBootAreas(t *testing.T) {
	const device = "devices/pci0000:00/0000:00:1a.0/mmc_host/mmc0/mmc0:0001"
	for mode, want := range map[string]taskcatalog.EraseMethod{taskcatalog.EraseSecure: taskcatalog.MethodOverwrite, taskcatalog.EraseQuick: taskcatalog.MethodTrim} {
		l := newLab(t)
		l.Params.Mode = mode
		l.put("sys/"+device+"/serial", "0x5d4ce6b9\n")
		l.put("sys/"+device+"/name", "DG4064\n")
		for _, name := range []string{"mmcblk0", "mmcblk0boot0", "mmcblk0boot1"} {
			dir := device + "/block/" + name
			l.disk(name, dir, nil)
			l.link(dir+"/device", device)
			erasetest.Write(filepath.Join(l.root, "play", name+".json"), play{})
		}
		l.names(taskcatalog.DiskName{Serial: "0x5d4ce6b9", Model: "DG4064", SizeBytes: labSize})
		d := l.good().Disks[0]
		if d.Name != "mmcblk0" || d.Method != want || d.Verdict != taskcatalog.VerdictClean || d.Message == "" {
			t.Errorf("%s: %+v", mode, d)
		}
		if mode == taskcatalog.EraseSecure && l.holds("mmcblk0") || !l.holds("mmcblk0boot0") {
			t.Errorf("%s: the eMMC was left as it was, or a boot area was not", mode)
		}
	}
}
