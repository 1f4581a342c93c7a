"""What agents say around the facts: openings, plans, approvals, hedges. `[a|b|]` is one of its alternatives.

Agents use these whether or not they go wrong; the wordings of `phrases` come in here too, where they do no harm.
"""

from __future__ import annotations

from blamespan_tracer.wordings.phrases import AGAIN, UNCHECKED

__all__ = [
    "ADOPTS",
    "APPROVALS",
    "ASKS",
    "CLOSERS",
    "CODE_OBJECTIONS",
    "DEBATES",
    "FINALS",
    "FINDINGS",
    "GO_ON",
    "HANDS_ON",
    "HEDGES",
    "LOOK_UPS",
    "MARKS",
    "NOT_FOUND",
    "OBJECTIONS",
    "OPENERS",
    "PLANS",
    "PROGRESS",
    "RECHECKS",
    "RESTATES",
    "SETTLED",
    "STANDS_BY",
    "TESTS_FAIL",
    "TESTS_PASS",
]

OPENERS = (
    "[Right|Okay|Good|Sure|Thanks]. [Here is|This is] [my part|what I have|where I stand].",
    "[Let me|I will] [go through|work through|take] [it|this] [step by step|in order|now].",
    "[Working|Going] [from|with] [the figures above|what was given|what we have].",
    "[On to|Now for|Next:] [the next part|the figures|what is open].",
    "[Based on|Given] [the request|what was said|the above] [, |:]",
    *AGAIN[:2],
    "[As before|As agreed], [one thing at a time|in order].",
)
HEDGES = (
    "[I am|I'm] [fairly|quite|reasonably] [sure|confident] [of this|about it].",
    "[As far as I can see|If I read it right|Unless I miss something], [that is it|this holds].",
    "[No need|There is no need] to [check|go over] [this|it] again.",
    "[I take|I took] the [figures|values] [as given|as they are].",
    "[This should|That should] [be|do] [fine|enough] [for now|here|].",
    "[The usual|Common] [way|method], nothing special.",
)
CLOSERS = (
    "[Over to|Back to] [you|the next one|the others].",
    "[Please|Do] [check|look at|go on with] [this|it].",
    "[That is|This is] [all|it] [from me|for now|on my side].",
    "[Let me know|Say so] if [anything|something] [is unclear|looks off|does not add up].",
    "[We can|Let us] [go on|continue|move on] [from here|].",
)
PLANS = (
    "[Plan|My plan|Here is the plan|How we go about it|Steps]:",
    "[I suggest|I propose|Let us take] [the following steps|this order|these steps]:",
    "[To answer this|For this one], [we need|we do] [the following|this]:",
)
LOOK_UPS = (
    "[Look up|Find|Fetch|Retrieve] {the}",
    "[We need|First get|Find out] {the}",
    "[Check|See] the [source|records] for {the}",
)
RESTATES = (
    "[What is given|The inputs|Given|What we know so far|For reference|To restate what is known]:",
    "[These are|Here are] the [inputs|figures|values] [we start from|as given|as they stand]:",
)
FINDINGS = (
    "[Here is what I found|Found|My findings|From the source|Looked up]:",
    "[The source says|The records show|I looked it up]:",
    "[I have|Got] the [values|figures|entries] [now|we asked for]:",
)
NOT_FOUND = (
    "[I could not|I did not] find {the}.",
    "[Nothing|No entry] [turned up|was found] for {the}.",
    "[The tools give|The source has] nothing on {the}.",
)
ASKS = (
    "[I still need|I am missing|We lack] {the}.",
    "[Could somebody|Can anyone|Please] [give|tell] me {the}.",
    "[Before I go on|To go on], I need {the}.",
)
SETTLED = (
    "[So|Hence|Thus|Therefore],",
    "[In short|All in all|To sum up]:",
    "[That gives|With that]:",
    "[Result|Outcome]:",
    "",
)
FINALS = (
    "[FINAL ANSWER|Final answer|The final answer is|Answer]:",
    "[To answer the question|Our answer|The team's answer]:",
    "[Having gone through it all|After all that|Putting it together],",
)
APPROVALS = (
    "[I checked|I went over|I recomputed] [it|the figures|each step] [and agree|and it holds|, all fine].",
    "[All of it|Everything|It] [holds|adds up|is in order].",
    "[No objections|Agreed|Accepted|Looks right] [from me|on my side|].",
    *UNCHECKED,
)
OBJECTIONS = (
    "[Wait|Hold on|One moment|Hm],",
    "[I get|I find|There is] [something else|a difference|an error] [here|]:",
    "[This|That] [does not|doesn't] [agree|match|add up] [with my figures|with the source|]:",
    "[Please correct|A correction|Needs fixing|I object]:",
)
GO_ON = (
    "[So far|Up to here] [so good|it holds|I agree]. [Please go on|What is next|Go on].",
    "[Fine|Agreed|In order] so far; [the rest is open|there is more to do|not done yet].",
    "[Nothing to object to|No remarks] [yet|so far]. [Continue|Carry on], please.",
)
PROGRESS = (
    "[We are on track|Good progress|Noted]. [Next|Still open|To do]:",
    "[Thanks|Good]. [What is left|Remaining|Next up]:",
    "[As planned|As before], [the next thing is|we go on with]:",
)
HANDS_ON = ("[{other} takes|{other}, please take|Over to {other} for] [it|this|the next part] [from here|].",)
TESTS_PASS = (
    "[All tests pass|The tests are green|Tests: all passed].",
    "[I ran the tests|Ran them]: [all passed|no failures].",
)
TESTS_FAIL = (
    "{The} fails [some of its|its|the] tests. [It has to hold that|Mind that|What is asked for]:",
    "{The} does not pass [the|all] tests. [To recall|Once more, the requirements|It needs]:",
    "[I ran the tests|Ran them]: {The} is not right yet. [Please go by this|Requirements]:",
)
CODE_OBJECTIONS = (
    "{The} is not what was asked for. [Mind that|It has to hold that]:",
    "[I read it|Having read it]: {The} is wrong somewhere. [Requirements|To recall]:",
)
DEBATES = (
    "[I have read|I looked at] the [others|other answers]. [I stay with|I keep to] [mine|my result]:",
    "[My answer|My result] [stands|remains|is unchanged]:",
    "[We agree|All of us agree|No difference between us]:",
)
ADOPTS = (
    "[I was wrong|I made a slip|My figure was off]; [the others are right|I take yours].",
    "[On second thought|Having read the others], I [change|correct] my [answer|result].",
    "[I follow|I join] the [others|majority] [here|].",
)
RECHECKS = (
    "[I worked it out again|I recomputed it|I went through it anew].",
    "[Corrected|Revised|With the correction].",
)
STANDS_BY = (
    "[I worked it out again|I recomputed it] and [get the same|stay with it].",
    "[I stand by|I keep to] [my figure|this].",
)
MARKS = ("APPROVED", "TERMINATE", "DONE")
"""The words by which a team ends; whichever of them is said."""
