package amd_test

import "testing"

func TestALookReadsEachGPUOnce(t *testing.T) {
	for _, version := range []string{"24.7.1", "26.2.1"} {
		l := newLab(t, allLibraries, "amdsmi "+version, "hive.1 0x5aa5", "bad_pages.1 3")
		h, all := l.helper()
		s, err := h.Look(t.Context(), "amd")
		if err != nil || len(s.GPUs) != len(all) || s.Driver == "" {
			t.Fatalf("%s: %+v, %v", version, s, err)
		}
		for i, g := range s.GPUs {
			if g.UUID != all[i].UUID || g.Numbers["answers"] != 1 || g.Texts["partition"] != "SPX" {
				t.Errorf("%s: GPU %d: %+v", version, i, g)
			}
			pages, measured := g.Numbers["retired_pages"]
			if want := map[int]int64{1: 3}[i]; !measured || pages != want || g.Numbers["remap_pending"] != min(want, 1) {
				t.Errorf("%s: GPU %d: %+v", version, i, g)
			}
		}
	}
}
