//! The compiler from the types of metadata to a [`TraceProgram`].

use super::compile_type::{ChooseRegister, CompiledField, CompiledFields, Compiler, Scope};
use super::decoder::EVENT_MAX;
use super::hidden::HiddenProgram;
use super::lex::Result;
use super::metadata::{self, Metadata};
use super::plain::plain_fields;
use super::program::{
    ContextProgram, DecodeOp, EventProgram, LossPlace, Register, StreamProgram, TraceProgram,
};
use super::types::{DeclaredType, IntegerType, Member, TypeKind, plain};
use crate::clock::TickConversion;
use sordino_event::{Class, Classes, Domain, LossCause};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// The size in bits from which on a payload is not skipped as a whole: it is longer than any event that is read.
const FIXED_MAX: u64 = 8 * EVENT_MAX as u64;

/// Compiles `metadata`, and adds a class to `classes` for every event class.
pub(super) fn compile(metadata: &Metadata, classes: &mut Classes) -> Result<TraceProgram> {
    let mut compiler = Compiler::new(metadata.order);
    let packet_header =
        compiler.hidden(Scope::PacketHeader, metadata.packet_header.as_ref(), packet_header_register)?;
    let streams = metadata.streams.iter().map(|stream| compiler.stream(metadata, stream, classes));
    let streams = streams.collect::<Result<_>>()?;
    Ok(TraceProgram { ops: compiler.ops, slots: compiler.slots as usize, packet_header, streams })
}

fn packet_header_register(name: &str, _: &IntegerType, top: bool) -> Register {
    match name {
        "magic" if top => Register::Magic,
        "stream_id" if top => Register::StreamId,
        "stream_instance_id" if top => Register::InstanceId,
        _ => Register::Nowhere,
    }
}

fn packet_context_register(name: &str, _: &IntegerType, top: bool) -> Register {
    match name {
        "packet_size" if top => Register::PacketSize,
        "content_size" if top => Register::ContentSize,
        "timestamp_begin" if top => Register::Begin,
        "timestamp_end" if top => Register::End,
        "events_discarded" if top => Register::Discarded,
        "packet_seq_num" if top => Register::Sequence,
        "cpu_id" if top => Register::PacketCpu,
        "too_large" if top => Register::TooLarge,
        _ => Register::Nowhere,
    }
}

/// Returns the register of a member of an event's header. LTTng's headers have a second id and time in a variant; the
/// last one counts.
fn event_header_register(name: &str, integer: &IntegerType, _: bool) -> Register {
    match name {
        "id" => Register::Id,
        "timestamp" => Register::Ticks,
        _ if integer.clock.is_some() => Register::Ticks,
        _ => Register::Nowhere,
    }
}

impl Compiler {
    fn stream(
        &mut self,
        metadata: &Metadata,
        stream: &metadata::StreamDeclaration,
        classes: &mut Classes,
    ) -> Result<StreamProgram> {
        self.roots.retain(|(scope, _)| *scope == Scope::PacketHeader);
        let packet_context =
            self.hidden(Scope::PacketContext, stream.packet_context.as_ref(), packet_context_register)?;
        let mut event_header = self.event_header(stream.event_header.as_ref())?;
        let loss = loss_place(stream);
        let (mut event_context, context_names) =
            self.context(Scope::StreamEventContext, stream.event_context.as_ref(), loss)?;
        let before = self.roots.len();
        let mut events = Vec::new();
        for event in &stream.events {
            let (context, own_names) = self.context(Scope::EventContext, event.context.as_ref(), loss)?;
            let (payload, mut fields) = self.payload(event.fields.as_ref())?;
            self.roots.truncate(before);
            self.count(context_names.len())?;
            fields.extend(context_names.iter().cloned());
            fields.extend(own_names);
            let class = Class {
                number: Some(event.id),
                level: event.level,
                ..Class::new(domain(metadata), event.name.clone(), fields)
            };
            let mut fixed = self.ops[payload.clone()].iter().map(DecodeOp::fixed_bits);
            let fixed =
                fixed.try_fold(0_u64, |sum, bits| sum.checked_add(bits?)).filter(|bits| *bits < FIXED_MAX);
            let is_alone = event_context.shown.is_empty() && context.shown.is_empty();
            let plain = fixed.filter(|_| is_alone).and_then(|_| plain_fields(&self.ops[payload.clone()]));
            let class = classes.add(class);
            events.push(EventProgram { id: event.id, class, context, payload, fixed, plain });
        }
        events.sort_by_key(|event| event.id);
        let own = events.iter_mut().map(|event| &mut event.context.hidden);
        for hidden in own.chain([&mut event_header, &mut event_context.hidden]) {
            hidden.simplify(&self.ops);
        }
        let is_whole =
            |op: &DecodeOp| matches!(op, DecodeOp::Register(int, Register::Begin) if int.bits == 64);
        let has_whole_clock = self.ops[packet_context.clone()].iter().any(is_whole);
        Ok(StreamProgram {
            id: stream.id,
            packet_context,
            event_header,
            event_mask: stream.event_header.as_ref().map_or(0, |ty| ty.align - 1),
            event_context,
            events,
            clock: clock(metadata, stream)?,
            loss,
            has_whole_clock,
            discarded_bits: discarded_bits(stream.packet_context.as_deref()),
        })
    }

    /// Compiles a scope whose values are not shown.
    fn hidden(
        &mut self,
        scope: Scope,
        ty: Option<&Arc<DeclaredType>>,
        register: ChooseRegister,
    ) -> Result<Range<usize>> {
        self.scope(scope, ty, |compiler, member, _| compiler.skip(&member.ty, &member.name, register, true))
    }

    fn event_header(&mut self, ty: Option<&Arc<DeclaredType>>) -> Result<HiddenProgram> {
        let ops = self.scope(Scope::EventHeader, ty, |compiler, member, _| {
            let target = compiler.skip(&member.ty, &member.name, event_header_register, true)?;
            if let (true, Some(DecodeOp::Register(_, register))) = (is_lost(member), compiler.ops.last_mut())
            {
                *register = Register::Lost;
            }
            Ok(target)
        })?;
        Ok(HiddenProgram::new(ops))
    }

    /// Compiles a context. Also returns the names of the fields that it shows.
    fn context(
        &mut self,
        scope: Scope,
        ty: Option<&Arc<DeclaredType>>,
        loss: LossPlace,
    ) -> Result<(ContextProgram, Vec<String>)> {
        let members = ty.map_or(&[][..], |ty| members(ty));
        let all: HashSet<_> = members.iter().map(|member| plain(&member.name)).collect();
        let registers: Vec<_> = members.iter().map(|member| context_register(member, &all, loss)).collect();
        let shown_names = members.iter().zip(&registers).filter(|(_, register)| register.is_none());
        let names: Vec<_> = shown_names.map(|(member, _)| format!("$ctx.{}", plain(&member.name))).collect();
        let mut shown = 0..0;
        if !names.is_empty() {
            shown = self.scope(scope, ty, |compiler, member, index| match registers[index] {
                Some(_) => compiler.skip(&member.ty, &member.name, |_, _, _| Register::Nowhere, true),
                None => compiler.show(&member.ty),
            })?;
            self.roots.pop();
        }
        let hidden = self.scope(scope, ty, |compiler, member, index| {
            let target = compiler.skip(&member.ty, &member.name, |_, _, _| Register::Nowhere, true)?;
            if let (Some(register), Some(DecodeOp::Register(_, place))) =
                (registers[index], compiler.ops.last_mut())
            {
                *place = register;
            }
            Ok(target)
        })?;
        Ok((ContextProgram { hidden: HiddenProgram::new(hidden), shown }, names))
    }

    /// Compiles a payload. Also returns the names of the fields that it shows.
    fn payload(&mut self, ty: Option<&Arc<DeclaredType>>) -> Result<(Range<usize>, Vec<String>)> {
        let members = ty.map_or(&[][..], |ty| members(ty));
        let is_length = |index: usize| match (members.get(index), members.get(index + 1)) {
            (Some(length), Some(sequence)) => is_length_of(length, sequence),
            _ => false,
        };
        let range = self.scope(Scope::Payload, ty, |compiler, member, index| {
            if is_length(index) {
                compiler.skip(&member.ty, &member.name, |_, _, _| Register::Nowhere, true)
            } else {
                compiler.show(&member.ty)
            }
        })?;
        let shown = members.iter().enumerate().filter(|(index, _)| !is_length(*index));
        Ok((range, shown.map(|(_, member)| plain(&member.name).to_owned()).collect()))
    }

    /// Compiles the structure at the root of a scope, each member by `compile`.
    fn scope(
        &mut self,
        scope: Scope,
        ty: Option<&Arc<DeclaredType>>,
        compile: impl FnMut(&mut Self, &Member, usize) -> Result<CompiledField>,
    ) -> Result<Range<usize>> {
        let start = self.ops.len();
        // While the scope is being compiled, an absolute path into it resolves to the frame, not to a root.
        self.roots.push((scope, CompiledFields::new()));
        if let Some(ty) = ty {
            let names = self.structure(ty, members(ty), compile)?;
            self.roots.pop();
            self.roots.push((scope, names));
        }
        Ok(start..self.ops.len())
    }
}

fn domain(metadata: &Metadata) -> Domain {
    match metadata.environment.text("domain") {
        Some("kernel") => Domain::Kernel,
        _ => Domain::User,
    }
}

/// Returns the clock to which a stream's header or context is mapped, or the trace's only one if none is named.
fn clock(metadata: &Metadata, stream: &metadata::StreamDeclaration) -> Result<Option<TickConversion>> {
    let types = [&stream.event_header, &stream.packet_context];
    let named = types.into_iter().flatten().find_map(|ty| ty.clock.as_deref());
    let clock = match named {
        Some(path) => Some(metadata.clock(path)?),
        None if metadata.clocks.len() == 1 => metadata.clocks.values().next(),
        None => None,
    };
    Ok(clock.map(TickConversion::new))
}

fn members(ty: &DeclaredType) -> &[Member] {
    match &ty.kind {
        TypeKind::Structure(members) => members,
        _ => &[],
    }
}

/// Returns the register of a top-level field of a context; `None` if it is shown.
fn context_register(member: &Member, names: &HashSet<&str>, loss: LossPlace) -> Option<Register> {
    let TypeKind::Integer(_) = member.ty.kind else { return None };
    match plain(&member.name) {
        "tid" => Some(Register::Tid),
        "vtid" if !names.contains("tid") => Some(Register::Tid),
        "pid" => Some(Register::Pid),
        "vpid" if !names.contains("pid") => Some(Register::Pid),
        "cpu_id" => Some(Register::Cpu),
        "length" if loss == LossPlace::Event => Some(Register::Length),
        _ => None,
    }
}

/// Returns the place of a stream's counts of losses. sordino's streams are recognized by their headers and contexts.
fn loss_place(stream: &metadata::StreamDeclaration) -> LossPlace {
    let has = |ty: &Option<Arc<DeclaredType>>, test: fn(&Member) -> bool| {
        ty.as_deref().is_some_and(|ty| members(ty).iter().any(test))
    };
    if has(&stream.packet_context, |member| member.name == "unanswered") {
        LossPlace::Packet(LossCause::Unanswered)
    } else if has(&stream.event_header, is_lost) {
        LossPlace::Event
    } else if has(&stream.event_context, |member| plain(&member.name) == "preempt_count") {
        LossPlace::Packet(LossCause::KernelOverrun)
    } else {
        LossPlace::Packet(LossCause::Discarded)
    }
}

/// Returns true if a member of an event's header is sordino's count of lost records: 16 bits, in a structure of their
/// own.
fn is_lost(member: &Member) -> bool {
    match members(&member.ty) {
        [only] if member.name == "lost" => only.ty.integer().is_some_and(|integer| integer.bits == 16),
        _ => false,
    }
}

fn discarded_bits(packet_context: Option<&DeclaredType>) -> u32 {
    let mut members = packet_context.map_or(&[][..], members).iter();
    let member = members.find(|member| plain(&member.name) == "events_discarded");
    member.and_then(|member| member.ty.integer()).map_or(64, |integer| integer.bits)
}

/// Returns true if tracers generated the field `length` for `sequence`: `_NAME_length`, with more underscores where
/// another field has that name.
fn is_length_of(length: &Member, sequence: &Member) -> bool {
    let TypeKind::Sequence(_, path) = &sequence.ty.kind else { return false };
    let stem = length.name.trim_start_matches('_').strip_suffix("_length");
    matches!(length.ty.kind, TypeKind::Integer(_))
        && stem == Some(sequence.name.trim_start_matches('_'))
        && path.words == [length.name.as_str()]
}
