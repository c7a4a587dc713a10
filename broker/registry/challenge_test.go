package registry

import "testing"

func TestABearerChallengeIsFoundWhereverItStands(t *testing.T) {
	const realm = `realm="https://auth.example/token"`
	want := challenge{"https://auth.example/token", "r"}
	for _, lines := range [][]string{
		{`Bearer ` + realm + `,service="r"`},
		{`Basic realm="Registry Realm", Bearer ` + realm + `,service="r"`},
		{`Bearer ` + realm + `,service="r", Basic realm="Registry Realm"`},
		{`Negotiate, Bearer ` + realm + `,service="r"`},
		{`Negotiate YII=, Bearer ` + realm + `,service="r"`},
		{`Negotiate YII==,bearer ` + realm + ` , service=r`},
		{"Bearer\t" + realm + ",\tservice=\"r\""},
		{`Bearer service="r",error="insufficient_scope",` + realm},
		{`Bearer service="r",scope="repository:a/b:pull,push",` + realm},
		{`Bearer error="a \"quoted, Basic realm=\" word",service="r",` + realm},
		{`BEARER Realm = "https://auth.example/token" , SERVICE="r"`},
		{`, ,Bearer ` + realm + `,,service="r",`},
		{`Basic realm="x"`, `Bearer ` + realm + `,service="r"`},
		{`Digest realm="d", nonce="Bearer realm=", qop="auth,auth-int", Bearer ` + realm + `,service="r"`},
		{`Bearer realm="https:\/\/auth.example/token",service="r"`},
	} {
		if got, is := bearerIn(lines); !is || got != want {
			t.Errorf("%q: %+v, %v", lines, got, is)
		}
	}
}

func TestAChallengeThatIsNoneIsNotFound(t *testing.T) {
	for _, line := range []string{
		"", ",", "Bearer", `Basic realm="https://auth.example/token"`, `Bearer service="r"`, `Bearer realm=""`, `Bearer realm="https://auth.example`,
		`Digest title="Bearer realm=https://auth.example/token"`, `realm="https://auth.example/token"`, "Bearer\x00realm=\"https://auth.example/token\"",
	} {
		if got, is := bearerIn([]string{line}); is {
			t.Errorf("%q: %+v", line, got)
		}
	}
}

// A registry writes the line: whatever it says, it is read in one pass.
func FuzzChallenges(f *testing.F) {
	for _, seed := range []string{`Basic realm="a", Bearer realm="https://b",service=c`, `Negotiate YII=, Bearer x="\\"`, ",,=", "Bearer\trealm=a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		for _, c := range challengesIn(line) {
			if c.scheme == "" {
				t.Errorf("%q has a challenge without a scheme", line)
			}
		}
	})
}
