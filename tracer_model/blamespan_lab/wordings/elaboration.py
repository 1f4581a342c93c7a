"""What wordy agents put around what they say: what is asked, why a step is taken, a recap. It states no value.

`{the}` is what a sentence is about; `{given}` is something it rests on.
"""

# ruff: noqa: E501  # wordings are read as sentences

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = [
    "AFTERTHOUGHTS",
    "HEADINGS",
    "INTROS",
    "REASONS",
    "RECAPS_KNOWN",
    "RECAPS_LEADING",
    "RECAPS_OPEN",
    "REMARKS",
    "SOURCED",
]

INTROS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "planner": (
            "My role is to set out how the team can get to {the}, so that everyone knows [what to do|their part] and in which order.",
            "The user wants {the}. Before anybody starts, it helps to lay out what depends on what.",
            "We are asked for {the}, and I would like to [structure|organise] the work first.",
            "The question comes down to {the}. Several pieces have to be in place for that, and they build on each other.",
            "As I understand the request, the deliverable is {the}. I will therefore go backwards from there to what has to be known.",
            "In my own words: the user describes a situation and would like to know {the}. My job is the road there, and the numbers are for others to find.",
            "To keep the team aligned, here is how I read the request: we are to provide {the}, in steps that can be traced.",
            "Let me first make sure we all have the same goal in mind, namely {the}.",
            "I have been asked to coordinate the work on {the}. A clear order of steps will save us trouble later.",
            "What the user is after is {the}. I have thought about which inputs that takes and who should supply them.",
            "Thanks for bringing this in. Our shared goal is {the}, and I will outline a path that avoids unnecessary detours.",
            "The aim is to arrive at {the}. I tried to keep the steps small, so that each can be reviewed on its own.",
        ),
        "researcher": (
            "I was asked to look things up on the way to {the}. I only report what the tools returned, without any interpretation.",
            "The team is after {the}, and my part is to supply the facts that are needed for it.",
            "To support the work on {the}, I went to the available sources and noted what they say.",
            "My task is to provide the inputs on which {the} rests. I have used the tools for this.",
            "In order to get to {the}, the others need reliable inputs. That is where my contribution comes in.",
            "The request boils down to {the}. On my side, this means searching the sources and passing the results on.",
            "As the one who looks things up, I went through the open items related to {the}.",
            "For {the} we depend on information that only the tools can give us, so I consulted them.",
            "I have been looking into what is needed for {the}. Below you will find what came out of it.",
            "Since {the} cannot be settled without data, I queried the sources one item at a time.",
            "Here is my research in support of {the}. Everything below comes from tool output.",
            "The goal, as I understand it, is {the}. I have gathered material for those who will take it from there.",
        ),
        "solver": (
            "We are asked for {the}. I will work through the open steps one at a time and show how each value comes about.",
            "My task is to get us closer to {the}. I go through the steps in order and write down what I use.",
            "The user would like to know {the}. To get there, I take the values we have and apply the relations stated in the task.",
            "In other words, the question is about {the}. Let me work on what can be settled now.",
            "As I understand it, we want to arrive at {the}, and some of the pieces are already on the table.",
            "Let me restate the goal before I compute anything: we are looking for {the}.",
            "The target is {the}. I will be explicit about the intermediate steps so that they can be reviewed.",
            "I am going to work towards {the} with the information shared so far, without adding anything of my own.",
            "To make progress on {the}, I looked at what is known and what follows from it.",
            "What we are after is {the}. I find it easiest to proceed step by step, from the inputs to the outcome.",
            "The work on {the} is now with me. I will show my working so that others can follow along.",
            "Our goal remains {the}. Below I write down the part that I was able to settle in this step.",
        ),
        "verifier": (
            "My role is to review the work on {the} before the team relies on it.",
            "I was asked to look at what the others contributed on the way to {the}.",
            "The team has been working on {the}. In this message I give my review of the current state.",
            "Since {the} is what goes back to the user, a second pair of eyes is useful here.",
            "This is my assessment of the work on {the}, based on the messages so far.",
            "As reviewer, I look at the work on {the} and say whether it can stand.",
            "The question asks for {the}. I am writing to give feedback on how far we have come.",
            "Here is my review. It concerns the work that leads to {the}, as it was shared with the team.",
            "A word on my part in this: others produce {the}, and I comment on what they produced.",
            "The others have shared their work on {the}. Below is what I have to say about it.",
            "I care about the quality of {the}, so this message is devoted to feedback.",
            "Reviewing is my part in this team, and what is under review is {the} with the steps behind it.",
        ),
        "reporter": (
            "The user asked for {the}. I have read through the conversation and will now put the outcome into words.",
            "My part is to report {the} to the user, based on what the team has put together.",
            "The work of the team is done, so what remains is to write up {the}.",
            "To recall the request: we were to provide {the}. The team went through the steps and I summarise the outcome here.",
            "On behalf of the team, I will now report back on {the}.",
            "This message closes our work on {the}. Details can be found in the messages above.",
            "The question was about {the}. Thanks to everybody who contributed to getting there.",
            "I am writing up the result of our work on {the}, in a form that can go to the user.",
            "After the discussion above, it is time to give the user {the}.",
            "Dear user, you asked us for {the}. The team has discussed it and here is the outcome.",
            "What follows is our reply to the request for {the}. It rests on the contributions in this conversation.",
            "We set out to provide {the}, and I have collected what the team came up with.",
        ),
        "orchestrator": (
            "Our goal is {the}. I have looked at what is known, and at what is still open, to decide who should go next.",
            "I keep track of our progress towards {the}. Based on the messages so far, this is how we continue.",
            "The user is waiting for {the}. Let me coordinate the next move.",
            "We are working towards {the}, and I want to make sure that each member knows what to do.",
            "Taking stock of the conversation, I see what has been contributed towards {the}.",
            "To get to {the}, the work has to be handed to whoever can move it forward.",
            "As the one who leads this team, I have to decide on the next step towards {the}.",
            "Thank you all for the input. With {the} as our goal, I have thought about what comes next.",
            "The state of the conversation tells me how far we are from {the}.",
            "Let me direct the team, with {the} in view.",
            "I have reviewed the thread with regard to {the}, and the following seems sensible to me.",
            "Everything we do here serves {the}, so let me be specific about what I expect next.",
        ),
        "debater": (
            "The question put to us is about {the}. I form my own view first and then compare it with the views of the others.",
            "We have been asked to discuss {the}. Here is my contribution to the discussion.",
            "I was asked for my position on {the}. I lay out the reasoning so that it can be challenged.",
            "In this debate on {the}, I want to be transparent about how I get to my position.",
            "My understanding is that we should come to an agreement on {the}.",
            "Everyone on this panel was given the same question, which is about {the}. This is where I stand.",
            "Let me contribute to the discussion of {the} with an argument that can be followed.",
            "The matter at hand is {the}. I took the information from the task and reasoned from there.",
            "I appreciate the chance to comment on {the}. My reasoning is set out below.",
            "To form an opinion on {the}, I went back to the task and read it with care.",
            "As a member of this panel, I owe the others a clear statement on {the}.",
            "Here is how I think about {the}. I am open to arguments if somebody sees it in another way.",
        ),
        "judge": (
            "I have listened to the panel on {the} and will now settle the matter.",
            "The members of the panel gave their views on {the}. It falls to me to decide.",
            "My task is to weigh the answers on {the} and to say which of them stands.",
            "After the discussion of {the}, a decision is due.",
            "Several answers on {the} have been put forward. I considered them together.",
            "The debate on {the} has come to its end, and this is my ruling.",
            "Having followed the exchange on {the}, I now give my judgement.",
            "Thank you to the panel for the discussion of {the}. I have to come to a decision.",
            "As moderator I collect the positions on {the} and draw a conclusion from them.",
            "The panel was asked for {the}. Based on what its members said, I will close the debate.",
            "I read every contribution on {the}, and this is how I see the outcome.",
            "It is my duty to conclude the debate on {the}.",
        ),
    }
)
"""By role: what is asked, in the agent's own words; none of them claims that anything was done well."""

REASONS = (
    "To find {the}, we take {given} and apply the relation that the task describes.",
    "The next quantity to settle is {the}. It builds on {given}, which is already at hand.",
    "For {the}, I start from {given} and follow the rule stated in the task.",
    "Now to {the}: the task tells us how it comes about, so this is plain arithmetic.",
    "We can now turn to {the}, because its inputs are available.",
    "Everything needed for {the} is on the table, so I work it out right away.",
    "The task defines how {the} is obtained, and I go by that definition.",
    "Let us look at {the}. I use {given} as it was stated and plug it in.",
    "Next, {the}. I take the inputs as they stand and combine them in the way the task asks for.",
    "Once {given} is known, we can move on to {the}.",
    "In order to move forward, {the} has to be settled, and I do this with the values above.",
    "I also need {the}, which rests on {given} among other things.",
    "{The} comes next. There is a rule for it in the task, and I apply that rule directly.",
    "Looking at {the}, I see that it depends on {given}, so that is where I begin.",
    "With the inputs in hand, I can determine {the}.",
    "Let me now derive {the} with the numbers we have been given.",
    "One of the quantities on our way is {the}, so let me work it out in full.",
    "I take up {the} at this point, as its inputs have been settled.",
    "What we know about {given} lets us get {the}.",
    "Turning to {the}: I go by the relation in the task and insert the values.",
    "Using {given} together with the rule from the task, I obtain {the}.",
    "It makes sense to deal with {the} now, while {given} is fresh in our minds.",
    "There is a direct way from {given} to {the}, and I take it.",
    "We proceed with {the}, which the task describes in terms of other quantities.",
)
"""Before an amount that is worked out."""

SOURCED = (
    "To establish {the}, I went to the source and read the entry.",
    "For {the}, I relied on the tool and took its reply as it was.",
    "I consulted the available tools about {the}, and they gave a clear reply.",
    "The next item on my list was {the}, so I looked it up.",
    "Regarding {the}, the source has an entry.",
    "I searched for {the} and read what came back.",
    "As to {the}, I asked the tool directly.",
    "One thing we needed was {the}, and a single query was enough for it.",
    "A query about {the} returned an entry, which I report here.",
    "Information on {the} was available in the source.",
    "I made a call to get {the}, as we cannot do without it.",
    "The tool has data on {the}, so I made use of it.",
    "We need {the} for what comes later, and the source covers it.",
    "Let me report what I read about {the}.",
    "Concerning {the}, I went by the tool output.",
    "I noted {the} from the reply of the tool.",
)
"""Before what a tool told."""

AFTERTHOUGHTS = (
    "The unit is the same as in the task.",
    "I keep this value for the steps that follow.",
    "We will need it again further down.",
    "Later steps can build on that.",
    "No other input is involved at this point.",
    "This settles the step, and we can continue.",
    "I wrote it down so that others can refer to it.",
    "It is used in what comes after.",
    "That leaves the remaining steps.",
    "The order of the steps matters here, so I kept to it.",
    "This goes straight into the next step.",
    "I have not applied any rounding beyond what is shown.",
    "Nothing else enters into this step.",
    "From here, the next step is within reach.",
    "I note it here for the record.",
    "The same value is meant wherever it comes up again.",
)
"""After a figure."""

REMARKS = (
    "I have tried to keep each statement short enough to be reviewed on its own.",
    "If any of the inputs change, the steps that rest on them have to be redone.",
    "All values are in the units used by the task, unless said otherwise.",
    "Please refer to the messages above for where the inputs come from.",
    "I did not make use of anything from outside this conversation.",
    "The approach is the standard one for a question of this kind, and it keeps the number of steps small.",
    "Where a value was already stated by somebody, I took it from there in place of deriving it a second time.",
    "For transparency, I am spelling out more than is strictly necessary.",
    "I paid attention to what exactly is asked, since that is where misunderstandings tend to creep in.",
    "Anyone who wants to retrace this only has to follow the lines in order.",
    "The structure of the task makes it easy to see which piece depends on which.",
    "I kept the names of the quantities as they appear in the task, so that we all speak about the same things.",
    "Working in small steps makes it easier to spot where something goes off track.",
    "It is worth keeping the overall goal in view while we deal with the individual pieces.",
    "I would rather be too explicit here than leave room for interpretation.",
    "As always, feedback from the rest of the team is appreciated.",
    "It helps if each of us can point to the message from which a value was taken.",
    "My wording follows the task closely in order to avoid confusion.",
    "There is no need for advanced methods here, since each relation is stated in plain language.",
    "The messages so far give the context in which this is to be read.",
    "I am mentioning this so that the next agent does not have to search the whole thread.",
    "To my mind, clarity matters more than speed at this stage.",
    "I separated what is given from what follows, because mixing the two makes a review harder.",
    "Should a question come up about any of this, it can be raised right away.",
)
"""Anywhere."""

RECAPS_OPEN = (
    "To recap, this moves us forward, while {the} is still open.",
    "In summary, some pieces are in place and {the} remains to be settled by the team.",
    "**Summary:** my part is written down above; {the} is still ahead of us.",
    "**Next steps:** use what is listed above to get to {the}.",
    "So the state of affairs is this: we have part of what we need, and {the} will follow once the rest is there.",
    "That covers my part for now. The team can build on it to reach {the}.",
    "We are one step closer to {the}, and the others can take over from here.",
    "Overall, the work on {the} is progressing, and the open pieces can be picked up next.",
    "To sum up my message: the points above are what I can contribute to {the} at this time.",
    "With this in place, the team can go on towards {the}.",
    "I suggest that whoever is next continues from these points in the direction of {the}.",
    "As a short recap, the above is my contribution, and {the} is what we are still working towards.",
)
"""At the end, while the answer is not there."""

RECAPS_KNOWN = (
    "To recap, the message above states where I stand on {the}.",
    "In summary, that is my statement on {the}, together with what it is based on.",
    "**Summary:** the value given above is my statement on {the}.",
    "**Conclusion:** with this, {the} has been stated and we can close this part.",
    "So this is where the work on {the} has brought us, and I consider my part finished.",
    "That covers what I have to say about {the}. The steps can be retraced in the conversation.",
    "Overall, the question about {the} is addressed by the statement above.",
    "This is my view of {the}, and it can be used by whoever needs it next.",
    "To sum up my message: {the} is stated above, in the terms of the task.",
    "With this, the request for {the} is covered from my side.",
    "I leave it at that, as {the} has been dealt with above.",
    "As a short recap, {the} was what we were asked for, and my statement on it is above.",
)
"""At the end, once there is an answer."""

RECAPS_LEADING = (
    "To recap, that is the next move on the way to {the}.",
    "I will look at the conversation again after that and decide how we continue with {the}.",
    "Please report back in this thread, so that I can keep track of {the}.",
    "**Next steps:** as said above; then we take another look at {the}.",
    "**Summary:** we keep our eyes on {the} and go one move at a time.",
    "Once that has been seen to, I will come back to the state of {the}.",
    "Please stay within your part, and leave the remainder of the work on {the} to the others.",
    "In summary, this message is all that is due at the moment, with {the} in mind.",
    "Let us keep the messages focused on {the}.",
    "I count on everybody to keep {the} in view.",
    "Thank you for the cooperation on {the} so far.",
    "The next decision about {the} follows as soon as I have heard from the team.",
)
"""At the end of what a leader says."""

HEADINGS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "task": ("Task", "What is asked", "Goal", "Objective", "My task", "The request", "Context", "Background"),
        "work": ("Details", "Work", "Working", "Step by step", "Contribution", "Main part", "Notes", "My message"),
        "recap": (
            "Summary",
            "Recap",
            "In short",
            "Where we are",
            "Wrap-up",
            "Takeaway",
            "Closing note",
            "State of things",
        ),
    }
)
"""Over what is asked, the message itself, and its recap."""
