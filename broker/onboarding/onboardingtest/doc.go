// Package onboardingtest has the broker's own records in memory, for tests of the chains
// that package onboarding makes: Book is both onboarding.Records and onboarding.Nodes, and lets
// agents enrol from what their machines were deployed with.
package onboardingtest
