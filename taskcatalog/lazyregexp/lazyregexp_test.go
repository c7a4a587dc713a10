package lazyregexp

import "testing"

func TestAPatternIsCompiledAtItsFirstUse(t *testing.T) {
	sound, unsound := New(`^a+(b)?$`), New(`(`)
	if !sound.MatchString("aab") || sound.Match([]byte("b")) || sound.String() != `^a+(b)?$` {
		t.Error("the pattern does not match what it says")
	}
	defer func() {
		if recover() == nil {
			t.Error("an unsound pattern was used, and nothing was said")
		}
	}()
	unsound.MatchString("")
}
